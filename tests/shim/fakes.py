"""Builds what the tests of the shim need with the machine's C compiler: the fake driver and small programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
sys.path.insert(0, str(REPOSITORY / "interposer"))
sys.path.append(str(REPOSITORY))  # the last: the tests are about the installed package

from replay.api import functions  # noqa: E402, I001
from replay.api.vocabulary import Function, Role  # noqa: E402

from interposer.generators import common, emulator  # noqa: E402

COMPILER = os.environ.get("CC", "cc")
SHIM = "libreplay_interposer.so"


def _fills(function: Function) -> str:
    """Statements that write each output: `count` elements of a pattern."""

    def value(position: int) -> str:
        counter = function.parameters[position]
        if counter.role in (Role.OUT, Role.INOUT):
            return f"counter(a{position}, {counter.element_bytes})"
        return f"(uint64_t)a{position}"

    counters = {place for parameter in function.parameters for place in parameter.count.parameters}
    statements = []
    for position, parameter in enumerate(function.parameters):
        if position in counters:
            continue  # the caller's room, all of which is used
        if parameter.role in (Role.OUT, Role.INOUT):
            factors = [
                str(parameter.count.scale * parameter.element_bytes),
                *map(value, parameter.count.parameters),
            ]
            statements.append(f"fill(a{position}, {' * '.join(factors)}, {position})")
        elif parameter.role == Role.HOST_WRITE:
            statements.append(
                f"fill(a{position}, {' * '.join(map(value, parameter.count.parameters))}, {position})"
            )
    return "; ".join(statements)


def _functions_text(written_by_hand: set[str]) -> str:
    lines = []
    for function in functions.all_functions():
        for symbol in common.symbols_of(function):
            if symbol in written_by_hand:
                continue
            simple = all(p.kind != "float" and p.size_bytes <= 8 for p in function.parameters)
            words = ", ".join(f"(uint64_t)a{n}" for n in range(len(function.parameters))) if simple else ""
            fills = _fills(function) if function.id else ""
            count = len(function.parameters) if simple else 0
            lines.append(
                f"FAKE({symbol}, {common.parameters_text(function)}, {count}, {fills or '(void)0'}, {words or '0'})"
            )
    return "\n".join(lines) + "\n"


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [COMPILER, "-std=gnu11", "-O0", "-g", "-w", str(source), "-o", str(output), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return output


def build_fake_driver(folder: Path, *flags: str) -> Path:
    """libcuda.so.1 in `folder`. `flags`: for the compiler."""
    source = HERE / "programs" / "fake_driver.c"
    by_hand = set(re.findall(r"^EXPORT int (cu\w+)\(", source.read_text(), re.MULTILINE))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "functions.inc").write_text(_functions_text(by_hand))
    (folder / "procedures.inc").write_text(emulator.emulator_procedures())
    return compile_c(
        source,
        folder / "libcuda.so.1",
        "-shared", "-fPIC", "-fvisibility=hidden", f"-I{folder}",
        "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic", "-lpthread", *flags,
    )  # fmt: skip


def recorded_symbols() -> list[str]:
    """The functions of the recording driver, in the order of their numbers."""
    return [symbol for function in functions.all_functions() for symbol in common.symbols_of(function)]


def build_recording_driver(folder: Path) -> Path:
    """A libcuda.so.1 in `folder` that hands every call to a hook."""
    folder.mkdir(parents=True, exist_ok=True)
    by_symbol = functions.by_symbol()
    lines = ["struct bytes_64 {\n  char bytes[64];\n};"]
    for number, symbol in enumerate(recorded_symbols()):
        function = by_symbol[symbol]
        words = common.words_text(function)
        lines.append(f"CALL({number}, {symbol}, {common.parameters_text(function)}, {words})")
    (folder / "calls.inc").write_text("\n".join(lines) + "\n")
    return compile_c(
        HERE / "programs" / "recording_driver.c",
        folder / "libcuda.so.1",
        "-shared", "-fPIC", "-fvisibility=hidden", f"-I{folder}", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic",
    )  # fmt: skip


def build_interposer(folder: Path, *flags: str, instrumentation: tuple[str, ...] = ()) -> Path:
    """The shim with constants of the test's own.

    instrumentation: flags of a sanitizer. What answers dlsym is left without: a sanitizer's runtime calls it before it
    is ready.
    """
    sources = REPOSITORY / "interposer"
    output = folder / SHIM
    # Optimising it takes longer than all that runs with it, but for the slow code of a sanitizer.
    optimised = "-O1" if instrumentation else "-O0"
    compiling = [
        COMPILER,
        "-std=c11",
        "-D_GNU_SOURCE",
        optimised,
        "-g",
        "-w",
        "-fPIC",
        "-fvisibility=hidden",
        f"-I{sources}",
        *flags,
    ]
    plain = [sources / "entry" / "resolve.c", sources / "driver" / "real.c"]
    objects = [str(folder / f"{path.stem}.o") for path in plain]
    for path, built in zip(plain, objects, strict=True):
        subprocess.run([*compiling, "-c", str(path), "-o", built], check=True)
    others = [
        str(path)
        for path in sources.glob("*/*.c")
        if path not in plain and path.parent.name != "stand_in"  # a library of its own
    ]
    command = [
        *compiling,
        *instrumentation,
        "-shared",
        *others,
        str(sources / "entry" / "dlsym.S"),
        *objects,
    ]
    command += ["-o", str(output), f"-Wl,--version-script={sources / 'exports.map'}", "-Wl,-Bsymbolic"]
    subprocess.run([*command, "-lpthread", "-ldl"], check=True)
    return output
