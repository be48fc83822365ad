"""What `check --bisect` and `fleet run --bisect` have in common: options, and what they write and print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replay.cli.common import option

if TYPE_CHECKING:
    from replay.library.steps import Caused
    from replay.results.fleet import FleetCase

BISECT = option("KIND=...", "Search for the first bad of these, for each confirmed step; as `bisect --over`.")
LOCAL = "local"
ON = option("local|slurm|ray|k8s", "Who starts the workers.", show_default=LOCAL)


def write_steps(folder: Path, caused: Sequence[Caused], cases: Mapping[str, FleetCase]) -> list[str]:
    """Of each step the search and the text of an issue. Returns what to print. Raises FileError."""
    from replay.beside import SHARED, require_file
    from replay.errors import FileError
    from replay.report.steps import issue_text, render_step
    from replay.results.documents import BISECTION
    from replay.results.json import write_document
    from replay.results.store import write_whole
    from replay.text import Screen

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError.of(error, folder) from None
    lines = []
    for item in caused:
        case = cases[item.unit]
        name = _file_name(item.unit)
        kept, issue = folder / f"{name}.bisection.json", folder / f"{name}.md"
        require_file(kept)
        require_file(issue)
        write_document(kept, BISECTION, item.found)
        write_whole(issue, issue_text(case, item.found, str(kept)).encode(), SHARED)
        lines += ["", render_step(case, item.found, Screen.of_stdout()), f"  issue text: {issue}"]
    return lines


def _file_name(unit: str) -> str:
    """One that a fleet's place of results takes; another for each unit."""
    import hashlib
    import re

    name = unit.replace("/", "_").replace("#", ".")
    plain = re.sub(r"[^A-Za-z0-9._-]|^[^A-Za-z0-9_-]", "_", name)[:120]
    return name if name == plain else f"{plain}-{hashlib.sha256(unit.encode()).hexdigest()[:8]}"
