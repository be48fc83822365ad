"""Make every list of driver functions that C, C++ and the documentation need from the one table, and the structs of
cuda.h for the shim.

    python interposer/generate.py            write the generated files
    python interposer/generate.py --check    exit 1 and name the files that are out of date

What is made is in `interposer/generators/`. Needs the standard library alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from interposer.generators import shim  # noqa: E402
from interposer.generators.common import kept_functions, swapped_symbols  # noqa: E402
from interposer.generators.coverage import coverage_page  # noqa: E402
from interposer.generators.emulator import (  # noqa: E402
    all_symbols,
    emulator_procedures,
    emulator_twins,
    emulator_unimplemented,
)
from replay.api.vocabulary import Role  # noqa: E402

OUTPUTS = {
    "interposer/generated/vocabulary.h": shim.vocabulary_header,
    "interposer/generated/structs.h": shim.structs_header,
    "interposer/generated/table.h": shim.table_header,
    "interposer/generated/functions.inc": shim.functions_data,
    "interposer/generated/wrappers.inc": shim.wrappers_data,
    "interposer/generated/slots.inc": shim.slots_data,
    "interposer/generated/resolution.inc": shim.resolution_data,
    "interposer/generated/nodes.inc": shim.nodes_data,
    "interposer/generated/stand_in.inc": lambda: shim.stand_in_data(
        symbol for symbol, _, _ in swapped_symbols()
    ),
    "interposer/generated/symbols.inc": lambda: shim.stand_in_data(all_symbols()),
    "emulator/driver/generated/procedures.inc": emulator_procedures,
    "emulator/driver/generated/twins.cpp": emulator_twins,
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
