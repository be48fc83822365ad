"""Make every list of driver functions that C, C++ and the documentation need from the one table.

    python interposer/generate.py            write the generated files
    python interposer/generate.py --check    exit 1 and name the files that are out of date

What is made: data for the shim's one generic path and one small wrapper for each swapped symbol
(`interposer/generated/`), the export list of the CPU driver (`emulator/driver/generated/`), `docs/coverage.md`.
Needs the standard library alone.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import IntEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from replay.api import functions, graphs, vocabulary  # noqa: E402
from replay.api.vocabulary import Effect, Function, Keep, Parameter, Role, Term  # noqa: E402

BANNER = "Made by interposer/generate.py from replay/api; do not edit."
SIGNED_TYPES = frozenset({"int", "CUdevice", "CUdevice_v1"})
# The wrapped resolvers are written by hand in interposer/entry/resolve.c.
RESOLVERS = ("cuGetProcAddress", "cuGetProcAddress_v2")


# ---- C types ---------------------------------------------------------------------------------------------------------


def abi_type(parameter: Parameter) -> str:
    """The argument's type as the ABI sees it, so that no wrapper depends on a CUDA header."""
    if parameter.kind == "float":
        return {4: "float", 8: "double"}[parameter.size_bytes]
    if parameter.size_bytes > 8:
        return f"struct bytes_{parameter.size_bytes}"  # by value, passed in memory
    signed = "" if parameter.c_type in SIGNED_TYPES else "u"
    return f"{signed}int{parameter.size_bytes * 8}_t"


def parameters_text(function: Function) -> str:
    if not function.parameters:
        return "(void)"
    return "(" + ", ".join(f"{abi_type(p)} a{n}" for n, p in enumerate(function.parameters)) + ")"


def arguments_text(function: Function) -> str:
    return "(" + ", ".join(f"a{n}" for n in range(len(function.parameters))) + ")"


def word_text(parameter: Parameter, position: int) -> str:
    """The argument as a word of a record: floats by bits, a large struct by where it stands."""
    if parameter.kind == "float":
        return f"bits_of_{'float' if parameter.size_bytes == 4 else 'double'}(a{position})"
    return f"(uint64_t)(uintptr_t)&a{position}" if parameter.size_bytes > 8 else f"(uint64_t)a{position}"


def words_text(function: Function) -> str:
    return ", ".join(word_text(p, n) for n, p in enumerate(function.parameters)) or "0"


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- which symbols are swapped ---------------------------------------------------------------------------------------


def is_kept(function: Function) -> bool:
    """Whether the shim sees its calls."""
    return function.id != 0 and function.keep != Keep.NEVER


def is_swapped(function: Function) -> bool:
    """A function that is kept, or one that is not captured, whose use inside a window has to be noted."""
    return is_kept(function) or bool(function.unsupported)


def symbols_of(function: Function) -> Iterator[str]:
    yield function.symbol
    if function.twin:
        yield function.twin


def swapped_symbols() -> list[tuple[str, Function, bool]]:
    """(symbol, function, is the per-thread twin) in the order of strcmp: the shim looks symbols up by bisection."""
    return sorted(
        (
            (symbol, function, symbol == function.twin)
            for function in functions.all_functions()
            if is_swapped(function)
            for symbol in symbols_of(function)
        ),
        key=lambda row: row[0],
    )


# ---- interposer/generated --------------------------------------------------------------------------------------------


def vocabulary_header() -> str:
    lines = [f"// {BANNER}", "#pragma once", ""]
    names: tuple[tuple[str, str, Iterable[IntEnum]], ...] = (
        ("keep", "KEEP", vocabulary.Keep),
        ("role", "ROLE", vocabulary.Role),
        ("effect", "EFFECT", vocabulary.Effect),
        ("record_kind", "RECORD", vocabulary.RecordKind),
        ("storage", "STORAGE", vocabulary.Storage),
        ("moment", "MOMENT", vocabulary.Moment),
        ("copy_flag", "COPY", vocabulary.CopyFlag),
        ("note", "NOTE", vocabulary.NoteCode),
        ("node_type", "NODE", graphs.NodeType),
        ("node_part", "PART", graphs.Part),
    )
    for name, prefix, kind in names:
        lines.append(f"enum {name} {{")
        lines += [f"  {prefix}_{member.name} = {member.value}," for member in kind]
        lines += ["};", ""]
    lines.append(f"#define PER_THREAD_BIT {vocabulary.PER_THREAD_BIT:#x}u")
    lines.append(f"#define BY_CAPTURE_BIT {vocabulary.BY_CAPTURE_BIT:#x}u")
    lines.append(f"#define VARIABLES_SOCKET {c_string(vocabulary.VARIABLES_SOCKET)}")
    lines.append(f"#define IN_CAPTURE_BIT {vocabulary.IN_CAPTURE_BIT:#x}u")
    lines.append("")
    for name in vocabulary.CAPTURE_ENVIRONMENT:
        lines.append(f"#define ENV_{name.removeprefix('REPLAY_CAPTURE_')} {c_string(name)}")
    return "\n".join(lines) + "\n"


def table_header() -> str:
    slots = swapped_symbols()
    newest = f"enum {{ NEWEST_RELEASE = {_releases()[-1]} }};"
    lines = [
        f"// {BANNER}",
        "#pragma once",
        "",
        "// Of the headers that the table was made from.",
        newest,
        "",
    ]
    lines += ["// Positions in `functions`.", "enum function_index {"]
    lines += [f"  FUNCTION_{function.symbol}," for function in kept_functions()]
    lines += [
        "  FUNCTION_COUNT",
        "};",
        "",
        "// Positions in `slots`: every symbol that has a wrapper.",
        "enum slot_index {",
    ]
    lines += [f"  SLOT_{symbol}," for symbol, _, _ in slots]
    lines += ["  SLOT_COUNT", "};", "", "// Function.id of the rows above.", "enum function_id {"]
    lines += [f"  ID_{function.symbol} = {function.id}," for function in kept_functions()]
    lines += ["};"]
    return "\n".join(lines) + "\n"


def kept_functions() -> list[Function]:
    return [function for function in functions.listed_functions() if is_kept(function)]


def c_term(term: Term) -> str:
    if len(term.parameters) > 2:
        raise SystemExit(f"a product of more than two arguments: {term}")
    first, second = ([*term.parameters, -1, -1])[:2]
    return f"{{{first}, {second}, {term.scale}}}"


def stream_position(function: Function) -> int:
    """Of the parameter that says which stream a call goes to; -1 where there is none."""
    places = (place for place, parameter in enumerate(function.parameters) if parameter.c_type == "CUstream")
    return next(places, -1)


# Roles whose pointee ENTER or LEAVE holds (interposer/record/encode.c).
INPUT_ROLES = frozenset((Role.IN, Role.INOUT, Role.STRING, Role.IMAGE, Role.HOST_READ))
OUTPUT_ROLES = frozenset((Role.OUT, Role.INOUT, Role.HOST_WRITE))


def functions_data() -> str:
    """PARAMETER(role, size_bytes, element_bytes, count) and FUNCTION(...) rows."""
    parameters: list[str] = []
    rows: list[str] = []
    for function in kept_functions():
        start = len(parameters)
        for p in function.parameters:
            parameters.append(
                f"PARAMETER(ROLE_{p.role.name}, {p.size_bytes}, {p.element_bytes}, {c_term(p.count)})"
                f" // {function.symbol} {p.name}"
            )
        terms = ", ".join(c_term(term) for term in function.effect_terms) or "{-1, -1, 0}"
        meaning = functions.by_symbol()[function.meaning].id
        flags = "|".join(
            name
            for name, on in (
                ("FLAG_CUSTOM", function.custom),
                ("FLAG_SYNCHRONIZES", function.synchronizes),
                ("FLAG_INPUTS", any(p.role in INPUT_ROLES for p in function.parameters)),
                ("FLAG_OUTPUTS", any(p.role in OUTPUT_ROLES for p in function.parameters)),
            )
            if on
        )
        rows.append(
            f"FUNCTION({function.id}, {meaning}, {function.symbol}, KEEP_{function.keep.name}, "
            f"EFFECT_{function.effect.name}, {start}, {len(function.parameters)}, {flags or 0}, "
            f"{stream_position(function)}, {c_string(function.unsupported)}, {terms})"
        )
    sections = ["#ifdef PARAMETER", *parameters, "#endif", "#ifdef FUNCTION", *rows, "#endif"]
    return "\n".join([f"// {BANNER}", *sections]) + "\n"


def wrapper_kind(function: Function) -> str:
    if not is_kept(function):
        return "PASS"
    if function.effect in (Effect.BEGIN_CAPTURE, Effect.END_CAPTURE):
        return "WRAP_COUNTED"  # counted while the window is closed too
    if function.effect == Effect.LAUNCH:
        return "WRAP_LAUNCH"
    if function.effect == Effect.GRAPH_LAUNCH:
        return "WRAP_GRAPH"
    if function.keep in (Keep.ALWAYS, Keep.FOLLOWED):
        return "WRAP_ALWAYS"
    # Others may have to wait until a call that touches memory has left the driver.
    return "WRAP_WINDOW" if function.effect == Effect.NONE else "WRAP_TOUCHING"


def wrappers_data() -> str:
    lines = [f"// {BANNER}"]
    sizes = {p.size_bytes for _, f, _ in swapped_symbols() for p in f.parameters if p.size_bytes > 8}
    lines += [f"struct bytes_{size} {{\n  char bytes[{size}];\n}};" for size in sorted(sizes)]
    for symbol, function, _ in swapped_symbols():
        kind = wrapper_kind(function)
        words = "" if kind == "PASS" else f", {words_text(function)}"
        if kind in ("WRAP_LAUNCH", "WRAP_GRAPH"):
            words = f", a{function.effect_terms[0].parameters[0]}{words}"  # what is launched
        lines.append(f"{kind}({symbol}, {parameters_text(function)}, {arguments_text(function)}{words})")
    return "\n".join(lines) + "\n"


def slots_data() -> str:
    lines = [f"// {BANNER}"]
    for symbol, function, per_thread in swapped_symbols():
        index = f"FUNCTION_{function.symbol}" if is_kept(function) else "-1"
        reason = "" if is_kept(function) else function.unsupported
        lines.append(f"SLOT({symbol}, {index}, {int(per_thread)}, {c_string(reason)})")
    return "\n".join(lines) + "\n"


def stand_in_data(symbols: Iterable[str]) -> str:
    """The names of a library that stands before the driver (interposer/stand_in)."""
    return "\n".join([f"// {BANNER}", *(f"SLOT({symbol})" for symbol in sorted(symbols))]) + "\n"


def resolution_rows() -> list[tuple[str, int, int, str, Function]]:
    """(name, version, flags, symbol, function), sorted: what cuGetProcAddress answers with."""
    rows = []
    for function in functions.all_functions():
        if function.since:
            rows.append((function.name, function.since, 0, function.symbol, function))
        if function.twin and function.twin_since:
            rows.append((function.name, function.twin_since, 2, function.twin, function))
    return sorted(rows, key=lambda row: row[:3])


def resolution_data() -> str:
    lines = [
        f"// {BANNER}",
        "// Sorted by name, then version. SWAP: the symbol has a wrapper; LEAVE: the driver's own answer stays.",
    ]
    for name, version, flags, symbol, function in resolution_rows():
        if is_swapped(function):
            lines.append(f"SWAP({name}, {version}, {flags}, {symbol})")
        elif symbol in RESOLVERS:
            lines.append(f"RESOLVER({name}, {version}, {flags}, {symbol})")
        else:
            lines.append(f"LEAVE({name}, {version}, {flags})")
    return "\n".join(lines) + "\n"


# ---- emulator/driver/generated ---------------------------------------------------------------------------------------


def emulator_procedures() -> str:
    lines = [
        f"// {BANNER}",
        "// PROC(name, version, flags, symbol); flags: 0 the legacy default stream, 2 the per-thread one.",
    ]
    lines += [
        f"PROC({name}, {version}, {flags}, {symbol})" for name, version, flags, symbol, _ in resolution_rows()
    ]
    return "\n".join(lines) + "\n"


# cudaGL.h, which the table does not cover. Programs that can draw look these up before they know whether they will.
_OPENGL = ("cuGLGetDevices_v2", "cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterImage")


def all_symbols() -> list[str]:
    """What the CPU driver exports."""
    of_table = (symbol for function in functions.all_functions() for symbol in symbols_of(function))
    return sorted({*of_table, *_OPENGL})


def emulator_unimplemented() -> str:
    lines = [
        f"// {BANNER}",
        "//",
        "// Every function of the driver API exists; one that is not defined elsewhere answers",
        "// CUDA_ERROR_NOT_SUPPORTED and is named on stderr at its first call. No header is included: a definition",
        "// elsewhere has the header's prototype and replaces the weak one here.",
        "",
        "namespace emulator::driver {",
        "int not_implemented(const char *function); // procedures/errors.cpp",
        "}",
        "",
        "#define UNIMPLEMENTED(symbol) \\",
        '  extern "C" __attribute__((weak, visibility("default"))) int symbol() { \\',
        "    return emulator::driver::not_implemented(#symbol); \\",
        "  }",
        "",
    ]
    lines += [f"UNIMPLEMENTED({symbol})" for symbol in all_symbols()]
    return "\n".join(lines) + "\n"


_DEFINITION = re.compile(r"^(?:CUresult\s+(?:CUDAAPI\s+)?|[A-Z][A-Z_]*\(\s*)(cu[A-Z]\w*)\b", re.MULTILINE)


def emulator_definitions() -> set[str]:
    """Driver functions that the CPU driver's sources define themselves."""
    found: set[str] = set()
    for source in sorted((ROOT / "emulator" / "driver").rglob("*.cpp")):
        if "generated" not in source.parts:
            found |= set(_DEFINITION.findall(source.read_text()))
    return found


# ---- docs/coverage.md ------------------------------------------------------------------------------------------------

_ROUND_TRIPS = Path(__file__).resolve().parent.parent / "tests" / "shim" / "round_trip" / "exceptions.py"


def round_trips() -> tuple[dict[str, str], dict[str, str]]:
    """Captured functions that the round trips leave out, with the reasons: the list that their test holds them to. And
    of these the ones that a replay refuses."""
    specification = importlib.util.spec_from_file_location("round_trip_exceptions", _ROUND_TRIPS)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.EXCEPTIONS, module.REFUSED


def coverage_rows() -> Iterator[tuple[str, Function, str, str, str]]:
    """(class, function, captured, replayed, remark) of every function, in the order of the symbols."""
    _, refused = round_trips()
    for function in functions.all_functions():
        if function.symbol in refused:
            yield "unsupported", function, "yes", "refused", refused[function.symbol]
        elif not function.id:
            yield "unlisted", function, "no", "", "not in the table yet"
        elif function.out_of_scope:
            yield "out of scope", function, "no", "", f"out of scope: {function.unsupported}"
        elif function.unsupported:
            yield "unsupported", function, "no", "", function.unsupported
        elif function.described:
            yield "captured", function, "with its graph", "with its graph", ""
        elif function.keep == Keep.NEVER:
            yield "no record", function, "needs no record", "", ""
        else:
            when = "always" if function.keep == Keep.ALWAYS else "in the window"
            how = f"as {function.same_as}" if function.same_as else "yes"
            yield "captured", function, when, how, ""


def coverage_page() -> str:
    implemented, (exceptions, _) = emulator_definitions(), round_trips()
    rows = list(coverage_rows())
    count = Counter(row[0] for row in rows)
    captured = [row[1] for row in rows if row[0] == "captured"]
    tested = [function for function in captured if function.symbol not in exceptions]
    listed = [row[1] for row in rows if row[1].id]
    emulated = sum(1 for function in listed if function.symbol in implemented)
    releases = ", ".join(map(_release_name, _releases()))
    lines = [
        "# Coverage of the driver API",
        "",
        f"<!-- {BANNER} -->",
        "",
        "Can a call of this function be captured and replayed, is that tested, and if not, why?",
        "",
        "| functions in the headers of CUDA " + releases + f" | {len(rows)} |",
        "|---|---|",
        f"| captured and replayed | {len(captured)} |",
        f"| ... tested by a round trip | {len(tested)} |",
        f"| need no record: they ask and change nothing that a launch depends on | {count['no record']} |",
        f"| unsupported, for the reason in the table | {count['unsupported']} |",
        f"| out of scope: graphics interoperability, EGL, VDPAU, NvSci | {count['out of scope']} |",
    ]
    if count["unlisted"]:
        lines.append(f"| not in the table yet | {count['unlisted']} |")
    lines += [
        f"| listed, and implemented by the built-in CPU driver | {emulated} |",
        "",
        "A function that is unsupported or out of scope is passed through, and a call of it inside a window is noted",
        "with its name and the reason; `replay info` and `replay run` show that. The interfaces to OpenGL, Direct3D,",
        "EGL and VDPAU have headers of their own; of them only what `cuda.h` declares stands here.",
        "",
        "- **captured** *always*: from the first driver call on, because it changes which objects exist. *in the",
        "  window*: while a window is open. *needs no record*: the application gets the driver's own function, at no",
        "  cost.",
        "- **replayed** *as ...*: the newer version that does the same is called. Memory is not allocated again call",
        "  by call but placed where it was before the first call, with what it held. *refused*: the node is in the",
        "  snapshot, and `replay run` names it and does not launch its graph, except with `--best-effort`.",
        "- **tested**: random but valid calls go through the shim, the file, the decoder and the engine, and what the",
        "  replay asks of its driver is compared with what the application asked, argument for argument.",
        "- **CPU driver**: the built-in CPU driver implements it.",
        "",
        "A function with a twin for the per-thread default stream (`_ptsz`, `_ptds`) is listed once; the twin is",
        "captured alike.",
        "",
        "| function | captured | replayed | tested | CPU driver | why not |",
        "|---|---|---|---|---|---|",
    ]
    for kind, function, when, how, remark in rows:
        test = "" if kind != "captured" else "no" if function.symbol in exceptions else "yes"
        remark = remark or exceptions.get(function.symbol, "")
        emulator = "yes" if function.symbol in implemented else ""
        lines.append(f"| {function.symbol} | {when} | {how} | {test} | {emulator} | {remark} |")
    return "\n".join(lines) + "\n"


def _releases() -> list[int]:
    return sorted({release for function in functions.all_functions() for release in function.releases})


def _release_name(release: int) -> str:
    return f"{release // 1000}.{release % 1000 // 10}"


# ---- writing and checking --------------------------------------------------------------------------------------------

OUTPUTS = {
    "interposer/generated/vocabulary.h": vocabulary_header,
    "interposer/generated/table.h": table_header,
    "interposer/generated/functions.inc": functions_data,
    "interposer/generated/wrappers.inc": wrappers_data,
    "interposer/generated/slots.inc": slots_data,
    "interposer/generated/resolution.inc": resolution_data,
    "interposer/generated/stand_in.inc": lambda: stand_in_data(
        [*(symbol for symbol, _, _ in swapped_symbols()), *RESOLVERS]
    ),
    "interposer/generated/symbols.inc": lambda: stand_in_data(all_symbols()),
    "emulator/driver/generated/procedures.inc": emulator_procedures,
    "emulator/driver/generated/unimplemented.cpp": emulator_unimplemented,
    "docs/coverage.md": coverage_page,
}


def check_roles() -> None:
    """What the shim's generic path takes for granted."""
    for function in kept_functions():
        customs = [p.name for p in function.parameters if p.role == Role.CUSTOM]
        if customs and not function.custom:
            raise SystemExit(
                f"{function.symbol}: {', '.join(customs)} is CUSTOM, but the row is not marked custom"
            )
        if len(function.parameters) > 16 or len(function.effect_terms) > 3:
            raise SystemExit(
                f"{function.symbol}: more parameters or terms than interposer/driver/table.h has room for"
            )


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    check_roles()
    stale = []
    for name, make in OUTPUTS.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if arguments and stale:
        print(f"out of date: {', '.join(stale)}\nrun: python interposer/generate.py", file=sys.stderr)
        return 1
    print(
        "generated files are up to date"
        if arguments
        else f"written: {', '.join(stale) or 'nothing to change'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
