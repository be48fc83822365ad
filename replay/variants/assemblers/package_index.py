"""Which versions of an assembler the package index offers: asked through `pip index versions` by the packages' names.

The user's own settings of pip hold. Answers are kept for a day in `index.json` of the assembler's cache folder; an
older one replaces an index that does not answer.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from replay.errors import EngineError, ReplayError
from replay.reading import read_json
from replay.records import dataclass
from replay.variants.assemblers.tools import Assembler
from replay.variants.compilers.tools import Ran, run_tool

NAME = "index.json"
FORMAT = "replay.ptxas-index/1"
MAXIMUM_AGE_S = 86_400
MAXIMUM_BYTES = 1 << 20
_TIMEOUT_S = 120
_AVAILABLE = re.compile(r"^Available versions: (.*)$", re.M)
_REFUSED = re.compile(r"\[Errno -?\d+\] ([^'\")\n]+)")  # of a connection
_SHOWN_CHARACTERS = 160
_VERSION = re.compile(r"\d{1,2}\.\d{1,3}\.\d{1,4}")


@dataclass(frozen=True)
class Offered:
    """versions: as the packages are numbered. problem: why they may not be all, "" when they are."""

    versions: tuple[str, ...]
    problem: str = ""


def offered(
    kind: Assembler,
    majors: Iterable[int],
    folder: Path,
    ask: Callable[[str], Ran] | None = None,
    now_s: Callable[[], float] = time.time,
) -> Offered:
    """What the index offers of these major versions. folder: of the cache."""
    known = _read(folder)
    found: list[str] = []
    problems: list[str] = []
    for name in dict.fromkeys(kind.package(major) for major in majors if major >= kind.minimum_major):
        asked_s, versions = known.get(name, (-math.inf, []))
        if not 0 <= now_s() - asked_s < MAXIMUM_AGE_S:
            answer, why = _asked(name, ask or _ask_pip)
            if why:
                kept = "" if not versions else "; what it offered before is taken"
                problems.append(
                    f"the package index does not say which versions of {name} there are ({why}){kept}"
                )
            else:
                versions, known[name] = answer, (now_s(), answer)
                _write(folder, known)
        found += versions
    return Offered(tuple(found), "; ".join(problems))


def _asked(name: str, ask: Callable[[str], Ran]) -> tuple[list[str], str]:
    try:
        ran = ask(name)
    except EngineError as error:
        return [], error.what
    match = _AVAILABLE.search(ran.output.decode("utf-8", "replace"))
    if ran.status != 0 or match is None:
        refused = _REFUSED.search(ran.log)
        said = refused[1] if refused else ran.first_error[:_SHOWN_CHARACTERS]
        return [], said or f"pip ended with status {ran.status}"
    return [version for version in re.split(r"[\s,]+", match[1]) if _VERSION.fullmatch(version)], ""


def _ask_pip(name: str) -> Ran:
    # One retry: whoever has no network should not wait for minutes.
    words = ["-m", "pip", "index", "versions", "--disable-pip-version-check", "--retries", "1"]
    return run_tool([sys.executable, *words, name], _TIMEOUT_S)


def _read(folder: Path) -> dict[str, tuple[float, list[str]]]:
    """Nothing when there is none, or it is damaged: then the index is asked."""
    with contextlib.suppress(ReplayError, ValueError, KeyError, TypeError, AttributeError):
        value = read_json(folder / NAME, MAXIMUM_BYTES)
        if value["format"] == FORMAT:
            return {
                str(name): (
                    float(item["asked_s"]),
                    [str(v) for v in item["versions"] if _VERSION.fullmatch(str(v))],
                )
                for name, item in value["packages"].items()
            }
    return {}


def _write(folder: Path, known: dict[str, tuple[float, list[str]]]) -> None:
    """A cache that cannot be written costs a question more the next time."""
    packages = {
        name: {"asked_s": asked_s, "versions": versions} for name, (asked_s, versions) in known.items()
    }
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            temporary = file.name
        try:
            Path(temporary).write_text(json.dumps({"format": FORMAT, "packages": packages}), "utf-8")
            os.replace(temporary, folder / NAME)
        finally:
            Path(temporary).unlink(missing_ok=True)
