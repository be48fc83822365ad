"""Read `cuda.h` and `cudaTypedefs.h` and write `facts.json`: which driver functions exist, and their prototypes.

    python -m replay.api.import_facts INCLUDE_DIR [INCLUDE_DIR ...]

`INCLUDE_DIR` is the `include` folder of a CUDA toolkit or of an `nvidia-cuda-runtime` wheel. The facts of all folders
given are merged; where two releases differ, the newer one wins, and `releases` says which ones have the function.
Facts are only what the headers state. What a parameter *means* is written by people, in `table/`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FACTS_PATH = Path(__file__).with_name("facts.json")

_PROTOTYPE = re.compile(r"^\s*CUresult\s+(cu\w+)\s*\(([^;]*)\)\s*;", re.MULTILINE | re.DOTALL)
_TYPEDEF = re.compile(r"\(\s*(?:CUDAAPI)?\s*\*\s*PFN_(cu\w+?)_v(\d+)(_pts[z]|_ptds)?\s*\)")
_SUFFIX = re.compile(r"^(.*?)(?:_v(\d+))?(_ptsz|_ptds)?$")
_VERSION = re.compile(r"#define\s+CUDA_VERSION\s+(\d+)")


def _preprocess(include: Path, header: str) -> str:
    """The header after the preprocessor, with every historic prototype visible."""
    command = [
        "cc",
        "-E",
        "-P",
        f"-I{include}",
        "-D__CUDA_API_VERSION_INTERNAL",
        "-x",
        "c",
        str(include / header),
    ]
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


def read_release(include: Path) -> tuple[int, dict[str, dict[str, Any]], dict[str, list[Any]]]:
    """The release number (13000 for 13.0), the facts of every driver symbol, and those of every parameter type."""
    found = _VERSION.search((include / "cuda.h").read_text(errors="replace"))
    if not found:
        raise SystemExit(f"{include}/cuda.h has no CUDA_VERSION. Give the include folder of a CUDA toolkit.")
    release = int(found.group(1))
    # cudaProfiler.h is part of the driver API too, but of the toolkit only, not of every wheel.
    headers = ["cuda.h", "cudaTypedefs.h"]
    if (include / "cudaProfiler.h").exists():
        headers += ["cudaProfiler.h", "cudaProfilerTypedefs.h"]
    preprocessed = {header: _preprocess(include, header) for header in headers}
    prototypes = {
        name: _split_parameters(text)
        for header, source in preprocessed.items()
        if not header.endswith("Typedefs.h")
        for name, text in _PROTOTYPE.findall(source)
    }

    # Rows of cuGetProcAddress: per (name, stream kind), sorted versions pair one to one with sorted symbol suffixes.
    versions: dict[tuple[str, str], set[int]] = {}
    typedefs = "".join(source for header, source in preprocessed.items() if header.endswith("Typedefs.h"))
    for name, version, kind in _TYPEDEF.findall(typedefs):
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
            print(
                f"note: {release}: {name}{kind}: versions {since} and symbols {listed} do not pair",
                file=sys.stderr,
            )
        for position, (_, symbol) in enumerate(listed):
            facts[symbol] = {
                "name": name,
                "per_thread": bool(kind),
                # Counted from the end: the newest version always belongs to the newest symbol.
                "since": since[position - len(listed)] if len(listed) - position <= len(since) else 0,
                "parameters": prototypes[symbol],
            }
    types = {kind for fact in facts.values() for kind, _ in fact["parameters"]}
    return release, facts, probe_types(include, types)


_PROBE = """#include <cuda.h>
#if __has_include(<cudaProfiler.h>)
#include <cudaProfiler.h>
#endif
#include <stdio.h>
#define CLASS(type) (int)__builtin_classify_type(*(type *)0)
#define SHOW(text, type, pointee) printf("%s|%d|%zu|%zu\\n", text, CLASS(type), sizeof(type), pointee)
int main(void) {
  char storage[4096]; (void)storage;
"""
# What __builtin_classify_type answers, as gcc and clang define it.
_CLASSES = {1: "integer", 3: "integer", 5: "pointer", 8: "float", 12: "struct", 13: "struct"}


def probe_types(include: Path, types: set[str]) -> dict[str, list[Any]]:
    """`{type: [class, size_bytes, pointee_size_bytes]}` as the compiler sees them; the pointee of void * has size 0."""
    facts: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        lines = [_PROBE]
        for kind in sorted(types):
            opaque = kind.replace("const ", "").strip() in ("void *", "CUhostFn") or not kind.endswith("*")
            pointee = "(size_t)0" if opaque else f"sizeof(**({kind} *)0)"
            lines.append(f'  SHOW("{kind}", {kind}, {pointee});')
        source.write_text("\n".join([*lines, "  return 0;", "}"]))
        program = Path(folder) / "probe"
        flags = [f"-I{include}", "-D__CUDA_API_VERSION_INTERNAL", "-w", "-o", str(program)]
        subprocess.run(["cc", str(source), *flags], check=True)
        for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines():
            kind, number, size, pointee_size = line.split("|")
            facts[kind] = [_CLASSES[int(number)], int(size), int(pointee_size)]
    return facts


def merge(releases: list[tuple[int, dict[str, dict[str, Any]], dict[str, list[Any]]]]) -> dict[str, Any]:
    """One table of all releases; the newest prototype wins."""
    table: dict[str, dict[str, Any]] = {}
    types: dict[str, list[Any]] = {}
    for release, facts, type_facts in sorted(releases, key=lambda row: row[0]):
        types.update(type_facts)
        for symbol, fact in facts.items():
            had = table.get(symbol, {}).get("releases", [])
            since = fact["since"] or table.get(symbol, {}).get("since", 0)
            table[symbol] = {**fact, "since": since, "releases": [*had, release]}
    numbers = sorted(row[0] for row in releases)
    return {
        "releases": numbers,
        "types": dict(sorted(types.items())),
        "functions": dict(sorted(table.items())),
    }


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    merged = merge([read_release(Path(folder)) for folder in arguments])
    sections = [f'"releases": {json.dumps(merged["releases"])}']
    for section in ("types", "functions"):
        rows = [f"  {json.dumps(key)}: {json.dumps(fact)}" for key, fact in merged[section].items()]
        sections.append(f'"{section}": {{\n' + ",\n".join(rows) + "\n}")
    FACTS_PATH.write_text("{" + ",\n".join(sections) + "}\n")
    count, numbers = len(merged["functions"]), ", ".join(map(str, merged["releases"]))
    print(f"{FACTS_PATH}: {count} symbols of CUDA {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
