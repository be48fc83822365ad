"""`emulator/driver/generated/`: what the CPU driver exports, and what of it is not defined elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

from interposer.generators.common import (
    BANNER,
    arguments_text,
    parameters_text,
    resolution_rows,
    symbols_of,
)
from replay.api import functions

ROOT = Path(__file__).resolve().parent.parent.parent


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
        "int not_implemented(const char *function); // entry/entry.cpp",
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


def emulator_twins() -> str:
    """The same function for programs that were compiled with the per-thread default stream."""
    defined = emulator_definitions()
    lines = [
        f"// {BANNER}",
        "//",
        "// Twins of what the CPU driver defines. No header of CUDA is included: its types of the arguments differ.",
        '#include "entry/default_stream.hpp"',
        "",
        "#include <cstdint>",
        "",
        "using emulator::driver::PerThreadDefaultStream;",
        "",
        "#pragma GCC visibility push(default)",
        'extern "C" {',
    ]
    for function in functions.all_functions():
        if function.twin and function.symbol in defined:
            lines += [
                f"int {function.symbol}{parameters_text(function)};",
                f"int {function.twin}{parameters_text(function)} {{",
                "  PerThreadDefaultStream scope;",
                f"  return {function.symbol}{arguments_text(function)};",
                "}",
            ]
    return "\n".join([*lines, "}", "#pragma GCC visibility pop"]) + "\n"
