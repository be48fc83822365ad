"""docs/coverage.md: of each function of the driver API whether it is captured, replayed and tested, and if not, why."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from interposer.generators.common import BANNER, releases
from interposer.generators.emulator import ROOT, emulator_definitions
from replay.api import functions
from replay.api.vocabulary import Function, Keep

_ROUND_TRIPS = ROOT / "tests" / "shim" / "round_trip" / "exceptions.py"
_ASKED = ROOT / "tests" / "real_driver" / "asked"
# What asks through the same library is named once.
_SHARED = {
    "the CUDA runtime": {"cuBLAS", "cuDNN", "CuPy", "PyTorch"},
    "cuda.bindings": {"cuda.bindings", "cuda.core", "numba-cuda"},
}


def round_trips() -> tuple[dict[str, str], dict[str, str]]:
    """Captured functions that the round trips leave out, with the reasons: the list that their test holds them to. And
    of these the ones that a replay refuses."""
    specification = importlib.util.spec_from_file_location("round_trip_exceptions", _ROUND_TRIPS)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.EXCEPTIONS, module.REFUSED


def meant(question: str) -> Function | None:
    """What a driver of the newest release gives to a line of tests/real_driver/asked: `dlsym SYMBOL`, or
    `NAME VERSION FLAGS` for cuGetProcAddress."""
    name, *words = question.split()
    if name == "dlsym":
        return functions.by_symbol().get(words[0])
    known = [one for one in functions.all_functions() if one.name == name and one.since <= int(words[0])]
    return max(known, key=lambda one: one.since, default=None)


def asked_by() -> dict[str, list[str]]:
    """The frameworks that ask for a function, by its symbol."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(_ASKED.glob("*.json"), key=lambda path: path.stem.lower()):
        answers = map(meant, json.loads(path.read_text(encoding="utf-8"))["asked"])
        for symbol in sorted({function.symbol for function in answers if function is not None}):
            found[symbol].append(path.stem)
    return {symbol: _named_once(set(names)) for symbol, names in found.items()}


def _named_once(names: set[str]) -> list[str]:
    for library, users in _SHARED.items():
        if users <= names:
            names = names - users | {library}
    return sorted(names, key=str.lower)


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
    rows, askers = list(coverage_rows()), asked_by()
    count = Counter(row[0] for row in rows)
    captured = [row[1] for row in rows if row[0] == "captured"]
    tested = [function for function in captured if function.symbol not in exceptions]
    listed = [row[1] for row in rows if row[1].id]
    emulated = sum(1 for function in listed if function.symbol in implemented)
    named = ", ".join(map(_release_name, releases()))
    lines = [
        "# Coverage of the driver API",
        "",
        f"<!-- {BANNER} -->",
        "",
        "Look up whether a call of a driver function can be captured and replayed, whether that is tested, and if",
        "not, why.",
        "",
        "| functions in the headers of CUDA " + named + f" | {len(rows)} |",
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
        "EGL and VDPAU have headers of their own; this page lists only what `cuda.h` declares of them.",
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
        "- **asked by**: what looks the function up when it starts, whether it calls it or not. *the CUDA runtime*:",
        "  cuBLAS, cuDNN, CuPy and PyTorch, which contain it; *cuda.bindings*: also cuda.core and numba-cuda.",
        "",
        "A function with a twin for the per-thread default stream (`_ptsz`, `_ptds`) is listed once; the twin is",
        "captured alike.",
        "",
        "| function | captured | replayed | tested | CPU driver | why not | asked by |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, function, when, how, remark in rows:
        test = "" if kind != "captured" else "no" if function.symbol in exceptions else "yes"
        remark = remark or exceptions.get(function.symbol, "")
        emulator = "yes" if function.symbol in implemented else ""
        asked = ", ".join(askers.get(function.symbol, ()))
        lines.append(f"| {function.symbol} | {when} | {how} | {test} | {emulator} | {remark} | {asked} |")
    return "\n".join(lines) + "\n"


def _release_name(release: int) -> str:
    return f"{release // 1000}.{release % 1000 // 10}"
