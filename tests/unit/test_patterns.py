"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from replay import patterns


def test_it_is_compiled_when_it_is_first_used(monkeypatch):
    compiled = []
    compile_it = re.compile
    monkeypatch.setattr(patterns.re, "compile", lambda *given: compiled.append(given) or compile_it(*given))
    pattern = patterns.compiled_later(r"(\d+)x", re.IGNORECASE)
    assert not compiled
    assert pattern.fullmatch("12X")[1] == "12"
    assert pattern.fullmatch("12") is None
    assert len(compiled) == 1
    assert pattern.sub("n", "3x4X") == "nn"
    assert pattern.pattern == r"(\d+)x"


def test_an_error_shows_when_it_is_used():
    pattern = patterns.compiled_later("(")
    with pytest.raises(re.error):
        pattern.search("")
