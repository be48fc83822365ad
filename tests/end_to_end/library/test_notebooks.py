"""The notebooks of docs/ run to their ends, from where they are, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[3] / "docs" / "notebooks"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    assert all(not cell.get("outputs") for cell in json.loads(path.read_text())["cells"])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    before = {*NOTEBOOKS.iterdir()}
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOKS)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)  # notebook display
    assert {*NOTEBOOKS.iterdir()} == before


def test_there_are_five_and_the_page_names_them() -> None:
    page = (NOTEBOOKS / "README.md").read_text()
    names = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    assert len(names) == 5
    assert all(f"]({name})" in page for name in names)
