"""The table of driver functions: what its rows promise, and that the headers at hand agree with `facts.json`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from replay.api import functions, import_facts
from replay.api.functions import all_functions, by_symbol, destroyer, listed_functions
from replay.api.vocabulary import HANDLE_TYPES, IN_CAPTURE_BIT, Effect, Keep, Replayed, Role

# How many arguments each effect takes; the shim's tracker and the engine rely on it.
EFFECT_ARGUMENTS = {
    Effect.NONE: 0,
    Effect.ALLOC: 2,
    Effect.FREE: 1,
    Effect.HOST_ALLOC: 2,
    Effect.HOST_FREE: 1,
    Effect.HOST_REGISTER: 2,
    Effect.HOST_UNREGISTER: 1,
    Effect.MANAGED_ALLOC: 2,
    Effect.MAP: 2,
    Effect.UNMAP: 2,
    Effect.WRITE: 2,
    Effect.READ: 2,
    Effect.COPY: 3,
    Effect.LAUNCH: 1,
    Effect.GLOBAL: 2,
    Effect.DESTROY: 1,
    Effect.END_OF_CONTEXT: 0,
    Effect.BEGIN_CAPTURE: 0,
    Effect.END_CAPTURE: 0,
    Effect.CUSTOM: 0,
    Effect.GRAPH: 1,
    Effect.GRAPH_UPDATE: 1,
    Effect.GRAPH_NODE: 1,
    Effect.GRAPH_ENABLE: 0,
    Effect.GRAPH_LAUNCH: 1,
    Effect.IMPORT: 1,
    Effect.SET_CURRENT: 1,
    Effect.PUSH_CURRENT: 1,
    Effect.POP_CURRENT: 0,
    Effect.RETAIN_PRIMARY: 1,
}


def test_ids_are_unique_and_leave_room_for_the_per_thread_bit() -> None:
    ids = [function.id for function in listed_functions()]
    assert len(set(ids)) == len(ids) >= 150
    assert all(0 < id < IN_CAPTURE_BIT for id in ids)


def test_ids_that_stand_in_captures_never_change() -> None:
    pinned = {
        "cuInit": 1,
        "cuModuleLoadData": 101,
        "cuMemAlloc_v2": 150,
        "cuMemcpyHtoD_v2": 220,
        "cuLaunchKernel": 330,
    }
    assert {symbol: by_symbol()[symbol].id for symbol in pinned} == pinned


@pytest.mark.parametrize("function", listed_functions(), ids=lambda function: function.symbol)
def test_row_is_consistent(function: functions.Function) -> None:
    assert len(function.effect_terms) == EFFECT_ARGUMENTS[function.effect]
    assert function.effect == Effect.NONE or function.keep != Keep.NEVER, (
        "an effect needs a wrapper that sees it"
    )
    assert function.since > 0
    for parameter in function.parameters:
        if parameter.role in (Role.IN, Role.OUT, Role.INOUT, Role.HOST_READ, Role.HOST_WRITE):
            assert parameter.element_bytes > 0, parameter.name
        if parameter.role == Role.CUSTOM:
            assert function.custom, f"{parameter.name} needs a custom encoder"
        if parameter.kind == "struct":
            assert parameter.size_bytes in (8, 64)


def test_what_a_call_creates_can_be_destroyed() -> None:
    kept = [f for f in listed_functions() if f.keep in (Keep.WINDOW, Keep.ALWAYS) and f.creates]
    assert {f.symbol for f in kept if not destroyer(f.creates)} == {"cuDevResourceGenerateDesc"}
    assert destroyer("CUstream") == "cuStreamDestroy_v2"
    assert destroyer("CUcontext") == "cuCtxDestroy_v2"
    assert destroyer("CUfunction") == ""


def test_the_getter_of_a_setting_takes_what_the_setter_takes() -> None:
    settings = [function for function in listed_functions() if function.sets]
    assert len(settings) > 5
    for function in settings:
        getter = by_symbol()[function.getter].parameters if function.getter else ()
        asked = {item.name for item in getter if item.role != Role.OUT}
        assert asked == ({item.name for item in function.parameters} - {function.sets} if getter else set())


def test_versions_that_do_the_same_have_the_columns_of_the_newer_one() -> None:
    assert by_symbol()["cuStreamDestroy"].replayed == Replayed.CALLED
    assert by_symbol()["cuDevicePrimaryCtxReset"].replayed == Replayed.REFUSED
    assert by_symbol()["cuCtxCreate"].creates == "CUcontext"


def test_every_void_pointer_of_a_recorded_function_has_a_stated_role() -> None:
    guessed = [
        (function.symbol, parameter.name)
        for function in listed_functions()
        if function.keep in (Keep.WINDOW, Keep.ALWAYS) and not function.unsupported
        for parameter in function.parameters
        if parameter.c_type in ("void *", "const void *", "void **") and parameter.role == Role.OPAQUE
    ]
    assert guessed == []


def test_every_function_of_the_headers_has_a_row() -> None:
    assert [function.symbol for function in all_functions() if not function.id] == []


def test_what_is_not_captured_has_a_reason_and_what_is_has_none() -> None:
    for function in listed_functions():
        assert not function.out_of_scope or function.unsupported, function.symbol
        assert not (function.described and function.unsupported), function.symbol
        assert not function.unsupported or len(function.unsupported) > 20, function.symbol


def test_versions_that_do_the_same_take_the_same() -> None:
    """A replay calls the newer one with the words of the older: names by position, and no pointer that shrinks."""
    for function in listed_functions():
        if not function.same_as:
            continue
        newer = by_symbol()[function.same_as]
        assert (newer.keep, newer.effect, newer.same_as) == (function.keep, function.effect, ""), (
            function.symbol
        )
        assert newer.synchronizes == function.synchronizes, function.symbol
        for old, new in zip(function.parameters, newer.parameters, strict=True):
            assert (old.role, old.kind) == (new.role, new.kind), f"{function.symbol} {old.name}"
            assert old.size_bytes <= new.size_bytes, f"{function.symbol} {old.name}"
            assert old.element_bytes <= max(new.element_bytes, 8), f"{function.symbol} {old.name}"


# Roles that a C type cannot tell, or tells wrongly: an output that is read as well, an array of unknown length.
_GIVEN = frozenset(("CUdeviceptr", "CUdeviceptr_v1", "CUdevResource", "CUtensorMap"))
_CONSIDERED_OUTPUTS = frozenset(("unsigned int *", "int *", "size_t *", "float *", "unsigned long long *"))


def test_every_pointer_of_a_recorded_function_has_a_considered_role() -> None:
    """A pointer that is no `const` is taken for an output of one element; only for results by value and handles is
    that certain. All others say what they are in their row."""
    rows = {row[1]: row[5] for row in functions.ROWS}
    guessed = [
        (function.symbol, parameter.name, parameter.c_type)
        for function in listed_functions()
        if function.keep in (Keep.WINDOW, Keep.ALWAYS) and not function.unsupported
        for parameter in function.parameters
        if parameter.role == Role.OUT
        and parameter.name not in rows[function.symbol]
        and parameter.c_type not in _CONSIDERED_OUTPUTS
        and parameter.element not in HANDLE_TYPES
        and parameter.element not in _GIVEN
    ]
    assert guessed == []


def test_a_row_that_names_a_parameter_the_headers_lack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*functions.ROWS, (9999, "cuCtxGetCurrent", Keep.WINDOW, Effect.FREE, ("nosuch",), {})]
    monkeypatch.setattr(
        functions, "ROWS", [row for row in rows if row[1] != "cuCtxGetCurrent" or row[0] == 9999]
    )
    by_symbol.cache_clear()
    all_functions.cache_clear()
    try:
        with pytest.raises(ValueError, match="cuCtxGetCurrent: no parameter named 'nosuch'"):
            all_functions()
    finally:
        monkeypatch.undo()
        by_symbol.cache_clear()
        all_functions.cache_clear()


def test_per_thread_twins_resolve_to_their_base() -> None:
    assert by_symbol()["cuLaunchKernel_ptsz"] is by_symbol()["cuLaunchKernel"]
    assert by_symbol()["cuMemcpyHtoD_v2_ptds"] is by_symbol()["cuMemcpyHtoD_v2"]


def test_versions_pair_with_symbols_in_order() -> None:
    """cuCtxCreate: the four ABIs and the cuGetProcAddress versions that give them, as cudaTypedefs.h declares them."""
    rows = {f.symbol: f.since for f in all_functions() if f.name == "cuCtxCreate"}
    assert rows == {
        "cuCtxCreate": 2000,
        "cuCtxCreate_v2": 3020,
        "cuCtxCreate_v3": 11040,
        "cuCtxCreate_v4": 12050,
    }


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
@pytest.mark.parametrize("include", import_facts.include_folders(), ids=str)
def test_facts_agree_with_the_headers_on_this_machine(include: Path) -> None:
    release, found, types, structs = import_facts.read_release(include)
    committed = json.loads(import_facts.FACTS_PATH.read_text())
    if release not in committed["releases"]:
        pytest.skip(f"facts.json does not cover CUDA {release}")
    for symbol, fact in found.items():
        known = committed["functions"][symbol]
        assert known["since"] == fact["since"], symbol
        assert release in known["releases"], symbol
        assert [t for t, _ in known["parameters"]] == [t for t, _ in fact["parameters"]], symbol
    for kind, (kind_class, _, _) in types.items():
        assert committed["types"][kind][0] == kind_class, kind
    assert structs.keys() >= {"CUlaunchConfig", "CUDA_MEMCPY3D"}
    for name, struct in structs.items():
        if name in committed["structs"]:  # else one that no later release has
            assert import_facts.apart(name, struct, committed["structs"][name]) == ""


def test_a_struct_that_two_releases_lay_out_differently_is_noticed() -> None:
    def release(number: int, *fields: list[Any], size: int = 16) -> import_facts.Release:
        return import_facts.Release(number, {}, {}, {"CUlaunchConfig": [size, "struct", list(fields)]})

    first = release(12090, ["gridDimX", 0, "u4"], ["reserved", 4, "u1", 12])
    grown = release(13000, ["gridDimX", 0, "u4"], ["attrs", 8, "u8"])
    assert import_facts.merge([grown, first])["structs"] == grown.structs
    for moved in (release(13000, ["gridDimX", 4, "u4"]), release(13000, ["gridDimX", 0, "u4"], size=24)):
        with pytest.raises(SystemExit, match="CUlaunchConfig of CUDA 13000 differs"):
            import_facts.merge([first, moved])
