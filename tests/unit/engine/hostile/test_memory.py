"""Snapshots that say of one address that it is memory of the host and something else, so that this process, which reads
and writes the host's memory itself, would go past the end of the other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.api.extents import Extent
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.memory import Placed, Span
from replay.errors import EngineError
from replay.export.plan import plan_export
from replay.export.steps import Load
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Census, Range

from ...helpers.small_snapshots import BASE, FOLLOW, u32, u64
from ...helpers.snapshot_factory import MODULE, SnapshotFactory

PINNED, SECOND, THIRD = 0x3600_0000_0000, 0x3700_0000_0000, 0x3800_0000_0000
MUCH = b"A" * (8 << 20)  # more than follows a variable
VARIABLE_BYTES = 4


def ask_for_counter(
    factory: SnapshotFactory,
    captured: int,
    module: int = MODULE,
    section: str = "setup",
    captured_bytes: int = VARIABLE_BYTES,
) -> int:
    """Says that the variable of the module had this address and size in the application."""
    outputs = {"dptr": u64(captured), "bytes": u64(captured_bytes)}
    call = factory.call(
        "cuModuleGetGlobal_v2",
        [1, 1, module, 1],
        section=section,
        inputs={"name": b"counter"},
        outputs=outputs,
    )
    return call.number


def variable_at_pinned_memory(factory: SnapshotFactory) -> None:
    factory.range(PINNED, MUCH, MUCH, kind="host")
    ask_for_counter(factory, PINNED)


def variable_inside_pinned_memory(factory: SnapshotFactory) -> None:
    factory.range(PINNED, MUCH[:4096], MUCH[:4096], kind="host")
    factory.range(PINNED + 4096, MUCH, MUCH, kind="registered")
    ask_for_counter(factory, PINNED + 4096)


def short_memory_at_the_host_address_of_other_memory(factory: SnapshotFactory) -> None:
    factory.range(SECOND, MUCH[:16], MUCH[:16], kind="host", host_address=PINNED)
    factory.range(THIRD, MUCH, MUCH, kind="host", host_address=SECOND)


def device_memory_inside_pinned_memory(factory: SnapshotFactory) -> None:
    factory.range(PINNED - 4096, MUCH[:8192], MUCH[:8192], kind="host")
    factory.range(PINNED, u32(5), u32(5))
    factory.range(PINNED + 4096, MUCH, MUCH, kind="host")


AT_TWO_PLACES: dict[str, Callable[[SnapshotFactory], None]] = {
    made.__name__: made
    for made in (
        variable_at_pinned_memory,
        variable_inside_pinned_memory,
        short_memory_at_the_host_address_of_other_memory,
        device_memory_inside_pinned_memory,
    )
}


def following(add: Callable[[SnapshotFactory], None]) -> SnapshotFactory:
    """A kernel that increments what a word in memory points to, beside what is added."""
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    add(factory)
    range_ = factory.range(BASE, u64(BASE + 64) + bytes(64), u64(BASE + 64) + bytes(56) + u64(1))
    launch = factory.launch(u64(BASE), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    return factory


@pytest.mark.parametrize("name", AT_TWO_PLACES)
def test_memory_of_the_host_is_that_of_the_host(name: str, replayed: Callable[..., object]) -> None:
    outcome = replayed(following(AT_TWO_PLACES[name]), timing=None)
    assert outcome.verification.verdict == "match"  # type: ignore[attr-defined]


def test_an_exported_program_loads_it_there_as_well(tmp_path: Path) -> None:
    with SnapshotReader(following(variable_at_pinned_memory).write(tmp_path / "x.rsnap")) as reader:
        loads = [step for step in plan_export(reader).loads if isinstance(step, Load) and step.host]
    assert [step.target for step in loads] == [PINNED]


def test_a_variable_that_is_memory_of_the_host_is_refused(replayed: Callable[..., object]) -> None:
    def add(factory: SnapshotFactory) -> None:
        image = factory.image(FOLLOW.encode())
        factory.call("cuModuleLoadData", [1, 2], inputs={"image": image}, outputs={"module": u64(0xD7)})
        number = ask_for_counter(factory, PINNED, 0xD7, "window")
        factory.range(PINNED, MUCH, None, kind="host", name="counter", owner=0xD7, born_call=number)

    with pytest.raises(EngineError, match="global counter .* is not loaded"):
        replayed(following(add), timing=None)


def copy_past_the_variable(factory: SnapshotFactory) -> None:
    ask_for_counter(factory, SECOND, captured_bytes=1 << 20)
    factory.call("cuMemcpyHtoD_v2", [SECOND + 4096, 0x7F00, 4], inputs={"srcHost": b"four"})


def larger_variable(factory: SnapshotFactory) -> None:
    factory.range(SECOND, MUCH[:4096], MUCH[:4096], kind="global", name="counter", owner=MODULE)


@pytest.mark.parametrize(
    ("add", "refusal"),
    [
        (copy_past_the_variable, "cuMemcpyHtoD_v2.*dstDevice"),
        (larger_variable, "has 4 bytes here, 4096 when"),
    ],
)
def test_a_variable_is_as_large_as_the_driver_says(
    add: Callable[[SnapshotFactory], None], refusal: str, replayed: Callable[..., object]
) -> None:
    with pytest.raises(EngineError, match=refusal):
        replayed(following(add), timing=None)


def test_the_host_address_of_memory_is_host_memory_of_its_size() -> None:
    placed = [
        Placed(Span(PINNED, 4096, True), 0x1000_0000, "relocated"),
        Placed(Span(SECOND, 2 << 20, False), 0x2000_0000, "relocated"),
    ]
    addresses = AddressMap(placed)
    addresses.bind(PINNED, VARIABLE_BYTES, 0x3000_0000)

    def home(address: int, size_bytes: int) -> int | None:
        return addresses.home(Range(1, "host", address, size_bytes, 0, 0))

    assert home(PINNED, 4096) == 0x1000_0000
    assert home(PINNED + 16, 4080) == 0x1000_0010
    assert home(PINNED, 4097) is None
    assert home(PINNED - 1, 16) is None
    assert home(SECOND, 16) is None
    assert addresses.home(Range(1, "device", PINNED, 4, 0, 0)) == 0x3000_0000


def test_an_array_at_the_address_of_memory_is_refused() -> None:
    addresses = AddressMap([Placed(Span(SECOND, 2 << 20, False), 0x2000_0000, "relocated")])
    addresses.bind(PINNED, VARIABLE_BYTES, 0x3000_0000)
    for _ in range(2):
        addresses.bind_array(THIRD)
    for address in (SECOND, SECOND + 4096, SECOND + (2 << 20), PINNED, PINNED + VARIABLE_BYTES):
        with pytest.raises(EngineError, match="belongs to other memory"):
            addresses.bind_array(address)
    assert addresses.find(THIRD) == THIRD
    assert addresses.reach(THIRD, 1) is None


def test_managed_memory_ends_where_the_driver_gave_no_more() -> None:
    placed = Placed(
        Span(SECOND, 2 << 20, False, managed_bytes=64),
        SECOND,
        "same_address",
        managed=True,
        less_bytes=1 << 20,
    )
    addresses = AddressMap([placed])
    end = SECOND + (1 << 20)
    assert addresses.reach(end - 64, 64) == end - 64
    assert addresses.is_for_host(end - 1)
    assert addresses.reach(end - 64, 65) is None
    assert not addresses.is_for_host(end)


@pytest.mark.parametrize(
    ("captured", "extent", "advice"),
    [
        (THIRD, Extent(0, 8), "capture again with `--memory live`; a file of somebody else may be damaged"),
        (SECOND, Extent(4 << 20, 8), "the snapshot is damaged, or was not made by"),
        (SECOND, Extent(0, 4 << 20), "the snapshot is damaged, or was not made by"),
    ],
)
def test_advice_is_what_would_help(captured: int, extent: Extent, advice: str) -> None:
    addresses = AddressMap([Placed(Span(SECOND, 2 << 20, False), SECOND, "same_address")])
    with pytest.raises(EngineError) as caught:
        addresses.access(captured, extent, "here", "dst")
    assert advice in str(caught.value.next)
