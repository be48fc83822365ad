"""Read `cuda.h` and `cudaTypedefs.h` and write `facts.json`: which driver functions exist, and their prototypes.

    python -m replay.api.import_facts INCLUDE_DIR [INCLUDE_DIR ...]

`INCLUDE_DIR` is the `include` folder of a CUDA toolkit or of an `nvidia-cuda-runtime` wheel. The facts of all folders
given are merged; where two releases differ, the newer one wins, and `releases` says which ones have the function.
Facts are only what the headers state. What a parameter *means* is written by people, in `functions.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

FACTS_PATH = Path(__file__).with_name("facts.json")

_PROTOTYPE = re.compile(r"^\s*CUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;", re.MULTILINE | re.DOTALL)
_TYPEDEF = re.compile(r"\(\s*(?:CUDAAPI)?\s*\*\s*PFN_(cu\w+?)_v(\d+)(_pts[z]|_ptds)?\s*\)")
_SUFFIX = re.compile(r"^(.*?)(?:_v(\d+))?(_ptsz|_ptds)?$")
_VERSION = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")


def _preprocess(include: Path, header: str) -> str:
    """The header after the preprocessor, with every historic prototype visible."""
    command = ["cc", "-E", "-P", f"-I{include}", "-D__CUDA_API_VERSION_INTERNAL", "-x", "c", str(include / header)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _split_parameters(text: str) -> list[list[str]]:
    """`"CUcontext *pctx, unsigned int flags"` -> `[["CUcontext *", "pctx"], ["unsigned int", "flags"]]`."""
    text = " ".join(text.split())
    if text in ("", "void"):
        return []
    parameters = []
    for position, piece in enumerate(text.split(",")):
        piece = piece.strip()
        match = re.match(r"^(.*?[\s*])(\w+)((?:\[\w*\])?)$", piece)
        known_type_words = {"int", "long", "char", "unsigned", "void"}
        if match and match.group(2) not in known_type_words and match.group(1).strip() not in ("", "const"):
            kind, name = match.group(1).strip(), match.group(2)
            if match.group(3):
                kind += " *"
        else:
            kind, name = piece, f"argument{position}"
        parameters.append([re.sub(r"\s*\*", " *", kind).replace("* *", "**"), name])
    return parameters


def read_release(include: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """The release number (13000 for 13.0) and the facts of every driver symbol of one include folder."""
    found = _VERSION.search((include / "cuda.h").read_text(errors="replace"))
    if not found:
        raise SystemExit(f"{include}/cuda.h has no CUDA_VERSION. Give the include folder of a CUDA toolkit.")
    release = int(found.group(1))
    prototypes = {name: _split_parameters(text) for name, text in _PROTOTYPE.findall(_preprocess(include, "cuda.h"))}

    # Rows of cuGetProcAddress: per (name, stream kind), sorted versions pair one to one with sorted symbol suffixes.
    versions: dict[tuple[str, str], set[int]] = {}
    for name, version, kind in _TYPEDEF.findall(_preprocess(include, "cudaTypedefs.h")):
        versions.setdefault((name, kind or ""), set()).add(int(version))
    symbols: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for symbol in prototypes:
        match = _SUFFIX.match(symbol)
        assert match
        key = (match.group(1), match.group(3) or "")
        symbols.setdefault(key, []).append((int(match.group(2) or 1), symbol))

    facts: dict[str, dict[str, Any]] = {}
    for (name, kind), listed in symbols.items():
        listed.sort()
        since = sorted(versions.get((name, kind), ()))
        if since and len(since) != len(listed):
            print(f"note: {release}: {name}{kind}: versions {since} and symbols {listed} do not pair", file=sys.stderr)
        for position, (_, symbol) in enumerate(listed):
            facts[symbol] = {
                "name": name,
                "per_thread": bool(kind),
                # Counted from the end: the newest version always belongs to the newest symbol.
                "since": since[position - len(listed)] if len(listed) - position <= len(since) else 0,
                "parameters": prototypes[symbol],
            }
    return release, facts


def merge(releases: list[tuple[int, dict[str, dict[str, Any]]]]) -> dict[str, Any]:
    """One table of all releases; the newest prototype wins."""
    table: dict[str, dict[str, Any]] = {}
    for release, facts in sorted(releases, key=lambda pair: pair[0]):
        for symbol, fact in facts.items():
            had = table.get(symbol, {}).get("releases", [])
            since = fact["since"] or table.get(symbol, {}).get("since", 0)
            table[symbol] = {**fact, "since": since, "releases": [*had, release]}
    return {"releases": sorted(release for release, _ in releases), "functions": dict(sorted(table.items()))}


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    merged = merge([read_release(Path(folder)) for folder in arguments])
    lines = [f'  {json.dumps(symbol)}: {json.dumps(fact)}' for symbol, fact in merged["functions"].items()]
    text = '{"releases": ' + json.dumps(merged["releases"]) + ', "functions": {\n' + ",\n".join(lines) + "\n}}\n"
    FACTS_PATH.write_text(text)
    print(f"{FACTS_PATH}: {len(lines)} symbols of CUDA {', '.join(map(str, merged['releases']))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
