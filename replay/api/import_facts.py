"""Read `cuda.h` and `cudaTypedefs.h` and write `facts.json`: which driver functions exist, their prototypes, and how
structs are laid out.

    python -m replay.api.import_facts INCLUDE_DIR [INCLUDE_DIR ...]

`INCLUDE_DIR` is the `include` folder of a CUDA toolkit or of an `nvidia-cuda-runtime` wheel. The facts of all folders
given are merged; where two releases differ, the newer one wins, and `releases` says which ones have the function.
Facts are only what the headers state. What a parameter *means* is written by people, in `table/`.
A struct that two releases lay out differently is an error: whoever reads it has to know of which release it is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

FACTS_PATH = Path(__file__).with_name("facts.json")

# Those whose fields replay or the shim reads or writes. What is nested in them comes along.
STRUCTS = (
    "CUDA_ARRAY_DESCRIPTOR", "CUDA_ARRAY3D_DESCRIPTOR", "CUDA_BATCH_MEM_OP_NODE_PARAMS",
    "CUDA_CONDITIONAL_NODE_PARAMS", "CUDA_GRAPH_INSTANTIATE_PARAMS", "CUDA_HOST_NODE_PARAMS",
    "CUDA_KERNEL_NODE_PARAMS", "CUDA_MEMCPY2D", "CUDA_MEMCPY3D", "CUDA_MEMCPY3D_BATCH_OP", "CUDA_MEMCPY3D_PEER",
    "CUDA_MEMCPY_NODE_PARAMS", "CUDA_MEMSET_NODE_PARAMS_v2", "CUDA_MEM_ALLOC_NODE_PARAMS", "CUDA_RESOURCE_DESC",
    "CUctxCreateParams", "CUgraphEdgeData", "CUgraphNodeParams", "CUlaunchAttribute", "CUlaunchConfig",
    "CUmemAccessDesc", "CUmemAllocationProp", "CUmemLocation", "CUmemPoolProps", "CUmemcpyAttributes",
    "CUstreamBatchMemOpParams", "CUtensorMap",
)  # fmt: skip

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


class Release(NamedTuple):
    """The facts of one release: of every driver symbol, of every parameter type, of structs."""

    number: int  # 13000 for 13.0
    functions: dict[str, dict[str, Any]]
    types: dict[str, list[Any]]
    structs: dict[str, list[Any]]


def include_folders() -> list[Path]:
    """Where this machine has headers: toolkits, and wheels that are installed beside replay."""
    toolkits = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    toolkits += sorted(Path("/usr/local").glob("cuda*"))
    toolkits += [found for folder in sys.path for found in sorted(Path(folder).glob("nvidia/*"))]
    return [folder / "include" for folder in toolkits if (folder / "include" / "cudaTypedefs.h").exists()]


def release_of(include: Path) -> int:
    """13000 for the headers of 13.0."""
    found = _VERSION.search((include / "cuda.h").read_text(errors="replace"))
    if not found:
        raise SystemExit(f"{include}/cuda.h has no CUDA_VERSION. Give the include folder of a CUDA toolkit.")
    return int(found.group(1))


def read_release(include: Path) -> Release:
    """The facts that the headers in a folder state."""
    release = release_of(include)
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
    return Release(release, facts, probe_types(include, types), probe_structs(include))


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


_ENTRY = re.compile(r"^ <(\d+)><(\w+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
_ATTRIBUTE = re.compile(r"^ +<\w+> +DW_AT_(\w+) *: *(?:\(.*?\): )?(?:<0x)?([^>\t]*)")
_ENCODINGS = {"4": "f", "5": "i"}  # DW_ATE_float, DW_ATE_signed; all others are unsigned, and so is char here


class _Entry(NamedTuple):
    """One of DWARF's, with its DW_AT_ attributes."""

    tag: str
    attributes: dict[str, str]
    children: list[_Entry]


def probe_structs(include: Path) -> dict[str, list[Any]]:
    """`{name: [size_bytes, "struct" or "union", [[field, offset, type, count], ...]]}` as the compiler's debugging
    information has them. type: "u8", "i4", "f4", ..., or the name of a nested struct; pointers are "u8"; count: of an
    array. A nested type without a name is called after its place; a field may have no name either."""
    declared = (include / "cuda.h").read_text(errors="replace")
    names = [name for name in STRUCTS if re.search(rf"\b{name};", declared)]
    with tempfile.TemporaryDirectory() as folder:
        source, compiled = Path(folder) / "probe.c", Path(folder) / "probe.o"
        source.write_text("\n".join(["#include <cuda.h>", *(f"{name} *of_{name};" for name in names)]))
        subprocess.run(["cc", "-g", "-c", f"-I{include}", "-o", compiled, source], check=True)
        command = ["readelf", "--debug-dump=info", str(compiled)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    entries: dict[str, _Entry] = {}
    parents: list[_Entry] = []
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            entry = entries[match[2]] = _Entry(match[3], {}, [])
            parents[int(match[1]) :] = [entry]
            if len(parents) > 1:
                parents[-2].children.append(entry)
        elif parents and (match := _ATTRIBUTE.match(line)):
            parents[-1].attributes[match[1]] = match[2].strip()
    found: dict[str, list[Any]] = {}
    for entry in entries.values():
        if entry.tag == "variable":
            pointer = entries[entry.attributes["type"]]
            _describe(entries, entries[pointer.attributes["type"]], "", found)
    return found


def _describe(
    entries: dict[str, _Entry], entry: _Entry, place: str, found: dict[str, list[Any]]
) -> tuple[str, int]:
    """Type and count of a field; a struct is added to `found` after those that are nested in it."""
    attributes, name = entry.attributes, ""
    while entry.tag in ("typedef", "const_type", "volatile_type"):
        name = name or attributes.get("name", "")
        entry = entries[attributes["type"]]
        attributes = entry.attributes
    if entry.tag == "array_type":
        kind, _ = _describe(entries, entries[attributes["type"]], place, found)
        return kind, int(entry.children[0].attributes["upper_bound"]) + 1
    if entry.tag not in ("structure_type", "union_type"):  # of an enum, a later member may change the sign
        encoding = attributes["encoding"] if entry.tag == "base_type" else ""
        return _ENCODINGS.get(encoding, "u") + attributes["byte_size"], 0
    name = name or place
    fields = []
    for number, member in enumerate(entry.children):
        field = member.attributes.get("name", "")
        kind, count = _describe(
            entries, entries[member.attributes["type"]], f"{name}_{field or number}", found
        )
        offset = int(member.attributes.get("data_member_location", 0))
        fields.append([field, offset, kind, *([count] if count else [])])
    found[name] = [int(attributes["byte_size"]), entry.tag.partition("_")[0].removesuffix("ure"), fields]
    return name, 0


def merge(releases: list[Release]) -> dict[str, Any]:
    """One table of all releases; the newest prototype wins. Raises SystemExit where they disagree on a layout."""
    table: dict[str, dict[str, Any]] = {}
    types: dict[str, list[Any]] = {}
    structs: dict[str, list[Any]] = {}
    for release in sorted(releases):
        types.update(release.types)
        for name, struct in release.structs.items():
            if differs := apart(name, structs.get(name, struct), struct):
                raise SystemExit(f"{name} of CUDA {release.number} differs from earlier ones: {differs}")
        # In the order of the newest: what is nested comes first.
        structs = release.structs | {
            name: row for name, row in structs.items() if name not in release.structs
        }
        for symbol, fact in release.functions.items():
            had = table.get(symbol, {}).get("releases", [])
            since = fact["since"] or table.get(symbol, {}).get("since", 0)
            table[symbol] = {**fact, "since": since, "releases": [*had, release.number]}
    return {
        "releases": sorted(release.number for release in releases),
        "types": dict(sorted(types.items())),
        "structs": structs,
        "functions": dict(sorted(table.items())),
    }


def apart(name: str, earlier: list[Any], later: list[Any]) -> str:
    """How two layouts of one struct differ, for people; "" where every field of both is at the same place. Later fields
    may take reserved bytes, and one that is nested may grow if that moves nothing."""
    fields = {field: rest for field, *rest in earlier[2]}
    named = [row for row in later[2] if row[0] and not re.match("reserved|pad", row[0])]
    moved = [field for field, *rest in named if fields.get(field, rest) != rest]
    size = f"{earlier[0]} and {later[0]} bytes" if name in STRUCTS and earlier[0] != later[0] else ""
    return ", ".join(filter(None, [size, *moved]))


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    merged = merge([read_release(Path(folder)) for folder in arguments])
    sections = [f'"releases": {json.dumps(merged["releases"])}']
    for section in ("types", "structs", "functions"):
        rows = [f"  {json.dumps(key)}: {json.dumps(fact)}" for key, fact in merged[section].items()]
        sections.append(f'"{section}": {{\n' + ",\n".join(rows) + "\n}")
    FACTS_PATH.write_text("{" + ",\n".join(sections) + "}\n")
    count, numbers = len(merged["functions"]), ", ".join(map(str, merged["releases"]))
    print(f"{FACTS_PATH}: {count} symbols of CUDA {numbers}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
