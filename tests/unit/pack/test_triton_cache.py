"""What is taken out of Triton's cache, and what of its user is not."""

from __future__ import annotations

import json
import os

import pytest

from replay.pack.texts import Texts
from replay.pack.triton_cache import TritonCache, _read, _without_paths

HOME = "/elsewhere/somebody/mine"
MLIR = f"""#loc = loc("{HOME}/k.py":3:0)
#loc1 = loc(callsite("f"("{HOME}/k.py":4:1) at "{HOME}/main.py":9:2))
"""
LLVM = f"""source_filename = "{HOME}/k"
@file = internal constant [33 x i8] c"{HOME}/k.py\\00"
!1 = !DIFile(filename: "k.py", directory: "{HOME}")
"""


@pytest.mark.parametrize(("level", "text"), [("ttir", MLIR), ("llir", LLVM)])
def test_texts_name_no_folder_of_the_user(level, text) -> None:
    short = _without_paths(level, text.encode(), Texts(keep=False)).decode()
    assert "somebody" not in short
    assert "k.py" in short
    assert _without_paths(level, text.encode(), Texts(keep=True)) == text.encode()


def test_a_constant_keeps_its_length() -> None:
    short = _without_paths("llir", LLVM.encode(), Texts(keep=False)).decode()
    lines = [line for line in short.splitlines() if line.startswith("@file")]
    assert [len(line) for line in lines] == [
        len(line) for line in LLVM.splitlines() if line.startswith("@file")
    ]
    assert lines[0].endswith('/k.py\\00"')


def test_a_link_in_the_cache_is_not_followed(tmp_path) -> None:
    (tmp_path / "secret").write_text("secret")
    os.symlink(tmp_path / "secret", tmp_path / "k.llir")
    assert _read(tmp_path / "k.llir") is None
    assert _read(tmp_path / "secret") == b"secret"


def test_what_a_cache_says_of_its_version_is_a_version(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "cache" / "entry"
    folder.mkdir(parents=True)
    (folder / "k.ptx").write_bytes(b"image")
    (folder / "k.json").write_text(json.dumps({"name": "k", "triton_version": f"3.9 of {HOME}"}))
    written = TritonCache([tmp_path / "cache"]).compilation("d", b"image", None, Texts(keep=False))
    assert written.compiler == "Triton"
