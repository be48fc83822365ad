"""Packs of results that earlier versions wrote stay readable."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

from replay.history import packs
from replay.history.series import look
from replay.report.history import history_csv
from replay.results.store import read_result

FOLDER = Path(__file__).parents[2] / "golden" / "packs"
FILES = sorted(FOLDER.glob("*.rpack"))


def test_there_is_a_pack_of_todays_version():
    assert packs.FORMAT.replace("/", "-").removeprefix("replay.") in {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_earlier_pack_says_what_it_said(path, tmp_path):
    shutil.copy(path, tmp_path)
    rows = list(csv.DictReader(history_csv(look(tmp_path)).splitlines()))
    then = list(csv.DictReader(path.with_suffix(".csv").read_text().splitlines()))
    assert [{name: row[name] for name in then[0]} for row in rows] == then


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_results_of_an_earlier_pack_are_read(path, tmp_path):
    then = list(csv.DictReader(path.with_suffix(".csv").read_text().splitlines()))
    assert packs.unpack([path], tmp_path / "out") == len(then)
    for row in then:
        result = read_result(tmp_path / "out" / Path(row["path"]).name)
        assert result.verification.verdict == row["outputs"]
        assert result.timing.gpu.median_ns == float(row["median_ns"])
