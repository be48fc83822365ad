"""`interposer/generated/`: data for the shim's one generic path, one small wrapper for each swapped symbol, and the
structs of cuda.h."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from interposer.generators.common import (
    BANNER,
    RESOLVERS,
    arguments_text,
    c_string,
    is_kept,
    is_swapped,
    kept_functions,
    parameters_text,
    releases,
    resolution_rows,
    swapped_symbols,
    words_text,
)
from replay.api import functions, graphs, structs, vocabulary
from replay.api.vocabulary import HANDLE_TYPES, Effect, Function, Keep, Parameter, Role, Term


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
        ("memory_type", "MEMORY", structs.MemoryType),
        ("resource_type", "RESOURCE", structs.ResourceType),
        ("location_type", "LOCATION", structs.LocationType),
        ("launch_attribute", "ATTRIBUTE", structs.LaunchAttributeId),
    )
    for name, prefix, kind in names:
        lines.append(f"enum {name} {{")
        lines += [f"  {prefix}_{member.name} = {member.value}," for member in kind]
        lines += ["};", ""]
    lines += ["// Types of the objects that handles name.", "enum handle_type {", "  HANDLE_NONE,"]
    lines += [f"  HANDLE_{c_type}," for c_type in sorted(HANDLE_TYPES)]
    lines += ["};", ""]
    attributes = ", ".join(f"ATTRIBUTE_{attribute.name}" for attribute in graphs.NODE_ATTRIBUTES)
    lines.append(f"#define NODE_ATTRIBUTES {attributes}")
    lines.append(f"#define PER_THREAD_BIT {vocabulary.PER_THREAD_BIT:#x}u")
    lines.append(f"#define BY_CAPTURE_BIT {vocabulary.BY_CAPTURE_BIT:#x}u")
    lines.append(f"#define VARIABLES_SOCKET {c_string(vocabulary.VARIABLES_SOCKET)}")
    lines.append(f"#define IN_CAPTURE_BIT {vocabulary.IN_CAPTURE_BIT:#x}u")
    lines.append("// Bits of what is watched for; how the environment names them.")
    lines += [
        f"#define WHEN_{trigger.name.upper()} {1 << n:#x}u" for n, trigger in enumerate(vocabulary.TRIGGERS)
    ]
    triggers = ", ".join(c_string(trigger.name) for trigger in vocabulary.TRIGGERS)
    lines.append(f"#define TRIGGER_NAMES {triggers}")
    lines.append(f"#define STICKY_RESULTS {', '.join(map(str, sorted(vocabulary.STICKY_RESULTS)))}")
    lines.append("")
    for name in vocabulary.CAPTURE_ENVIRONMENT:
        lines.append(f"#define ENV_{name.removeprefix('REPLAY_CAPTURE_')} {c_string(name)}")
    return "\n".join(lines) + "\n"


_C_TYPES = {"u": "uint{}_t", "i": "int{}_t", "f": "float"}


def c_fields(name: str) -> str:
    known, lines = structs.facts()["structs"], []
    for field, _, kind, *counts in known[name][2]:
        c_type = (
            _C_TYPES[kind[0]].format(8 * int(kind[1:])) if kind not in known else f"{known[kind][1]} {kind}"
        )
        if not field:  # only one that is defined in its place can lack a name
            c_type = f"{known[kind][1]} {{ {c_fields(kind)} }}"
        lines.append(f"{c_type} {field}{''.join(f'[{count}]' for count in counts)};")
    return "\n  ".join(lines)


def structs_header() -> str:
    """The structs of cuda.h that the shim reads and writes: handles, addresses and pointers are numbers."""
    lines = [f"// {BANNER}", "#pragma once", "", "#include <stddef.h>", "#include <stdint.h>", ""]
    for name, (size, tag, fields) in structs.facts()["structs"].items():
        offsets = [f"offsetof({tag} {name}, {field}) == {offset}" for field, offset, *_ in fields if field]
        checks = " && ".join([f"sizeof({tag} {name}) == {size}", *offsets])
        lines += [f"{tag} {name} {{\n  {c_fields(name)}\n}};", f'_Static_assert({checks}, "cuda.h");', ""]
    return "\n".join(lines)


def table_header() -> str:
    slots = swapped_symbols()
    newest = f"enum {{ NEWEST_RELEASE = {releases()[-1]} }};"
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


def c_term(term: Term) -> str:
    if len(term.parameters) > 2:
        raise SystemExit(f"a product of more than two arguments: {term}")
    first, second = ([*term.parameters, -1, -1])[:2]
    return f"{{{first}, {second}, {term.scale}}}"


def stream_position(function: Function) -> int:
    """Of the parameter that says which stream a call goes to; -1 where there is none."""
    places = (place for place, parameter in enumerate(function.parameters) if parameter.c_type == "CUstream")
    return next(places, -1)


# What these change is no memory, so they pass while memory is read.
_NO_MEMORY = frozenset(
    (Effect.NONE, Effect.SET_CURRENT, Effect.PUSH_CURRENT, Effect.POP_CURRENT, Effect.RETAIN_PRIMARY)
)


def handle_type(parameter: Parameter | None) -> str:
    """Of a handle, or of the handles that a pointer leads to."""
    types = (parameter.c_type, parameter.element) if parameter else ()
    return next((f"HANDLE_{c_type}" for c_type in types if c_type in HANDLE_TYPES), "HANDLE_NONE")


# Roles whose pointee ENTER or LEAVE holds (interposer/record/encode.c).
INPUT_ROLES = frozenset((Role.IN, Role.INOUT, Role.STRING, Role.IMAGE, Role.HOST_READ))
OUTPUT_ROLES = frozenset((Role.OUT, Role.INOUT, Role.HOST_WRITE))


def functions_data() -> str:
    """PARAMETER(...), FUNCTION(...) and READERS(...) rows: interposer/driver/table.c, interposer/call/effects.c."""
    parameters: list[str] = []
    rows: list[str] = []
    readers: list[str] = []
    for function in kept_functions():
        start = len(parameters)
        for p in function.parameters:
            parameters.append(
                f"PARAMETER(ROLE_{p.role.name}, {handle_type(p)}, {p.size_bytes}, {p.element_bytes}, {c_term(p.count)})"
                f" // {function.symbol} {p.name}"
            )
        terms = ", ".join(c_term(term) for term in function.effect_terms) or "{-1, -1, 0}"
        meaning = functions.by_symbol()[function.meaning].id
        flags = "|".join(
            name
            for name, on in (
                ("FLAG_SYNCHRONIZES", function.synchronizes),
                ("FLAG_INPUTS", any(p.role in INPUT_ROLES for p in function.parameters)),
                ("FLAG_OUTPUTS", any(p.role in OUTPUT_ROLES for p in function.parameters)),
                ("FLAG_TOUCHES", function.effect not in _NO_MEMORY),
                ("FLAG_WAITS", function.waits or function.polls or function.synchronizes),
            )
            if on
        )
        rows.append(
            f"FUNCTION({function.id}, {meaning}, {function.symbol}, KEEP_{function.keep.name}, "
            f"EFFECT_{function.effect.name}, {start}, {len(function.parameters)}, {flags or 0}, "
            f"{stream_position(function)}, {handle_type(function.gives)}, "
            f"{'NODE_ANY' if function.node is None else f'NODE_{function.node.name}'}, "
            f"{c_string(function.unsupported)}, {terms})"
        )
        if any(names := (function.enter, function.leave, function.after)):
            readers.append(f"READERS({', '.join((function.symbol, *(name or 'NULL' for name in names)))})")
    sections = [
        line
        for name, rows_of in (("PARAMETER", parameters), ("FUNCTION", rows), ("READERS", readers))
        for line in (f"#ifdef {name}", *rows_of, "#endif")
    ]
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
    if function.shares:
        return "WRAP_UNFOLLOWED"
    # Others may have to wait until a call that touches memory has left the driver.
    return "WRAP_WINDOW" if function.effect in _NO_MEMORY else "WRAP_TOUCHING"


def wrappers_data() -> str:
    lines = [f"// {BANNER}"]
    sizes = {p.size_bytes for _, f, _ in swapped_symbols() for p in f.parameters if p.size_bytes > 8}
    lines += [f"struct bytes_{size} {{\n  char bytes[{size}];\n}};" for size in sorted(sizes)]
    for symbol, function, _ in swapped_symbols():
        if symbol in RESOLVERS:
            continue
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


def nodes_data() -> str:
    """NODE_KIND(...) rows: interposer/graph/parameters.c."""
    rows = (
        f"NODE_KIND(NODE_{kind.name}, {c_string(question)}, {', '.join(map(str, numbers))})"
        for kind, question, *numbers in graphs.node_kinds()
    )
    return "\n".join([f"// {BANNER}", *rows]) + "\n"


def stand_in_data(symbols: Iterable[str]) -> str:
    """The names of a library that is found in place of the driver (interposer/stand_in)."""
    return "\n".join([f"// {BANNER}", *(f"SLOT({symbol})" for symbol in sorted(symbols))]) + "\n"


def resolution_data() -> str:
    lines = [
        f"// {BANNER}",
        "// Sorted by name, then version. SWAP: the symbol has a wrapper; LEAVE: the driver's own answer stays.",
    ]
    for name, version, flags, symbol, function in resolution_rows():
        if is_swapped(function):
            lines.append(f"SWAP({name}, {version}, {flags}, {symbol})")
        else:
            lines.append(f"LEAVE({name}, {version}, {flags})")
    return "\n".join(lines) + "\n"
