"""What a variant changes in one snapshot, once it is planned (plan.py): replays that change nothing need no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from replay.errors import EngineError
from replay.records import dataclass
from replay.results.run.variant import VariantFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.drivers import Driver
    from replay.engine.variants import Replacement, Shape
    from replay.results.run.trust import TrustCheck
    from replay.snapshot.container import SnapshotReader
    from replay.variants.model import Variant


class NotExecutable(EngineError):
    """A variant that was built and fits, but that this driver cannot execute. `facts`: what is known of it."""

    def __init__(
        self, what: str, facts: VariantFacts, *, where: object = None, next: str | None = None
    ) -> None:
        from replay.variants.wording import render_variant

        self.facts = facts
        self.details = render_variant(facts)
        super().__init__(what, where=where, next=next)


@dataclass(frozen=True)
class Plan:
    """What the worker does otherwise, and what is reported of it. checks: of an untrusted variant."""

    replacements: tuple[Replacement, ...]
    shapes: tuple[Shape, ...]
    jit: tuple[tuple[int, int], ...]
    facts: VariantFacts | None
    notes: tuple[str, ...] = ()
    checks: tuple[TrustCheck, ...] = ()

    @contextmanager
    def request(self) -> Iterator[tuple[dict[str, Any] | None, tuple[int, ...]]]:
        """What the worker is told, and the open files that it must inherit: no file of an image can remain."""
        if not (self.replacements or self.shapes or self.jit):
            yield None, ()
            return
        descriptors = [in_memory(item.image) for item in self.replacements]
        try:
            yield {
                "replacements": [
                    {"digest": item.digest, "new_digest": item.new_digest, "descriptor": descriptor,
                     "bytes": len(item.image), "names": item.names, "others": list(item.others), "beside": item.beside}
                    for item, descriptor in zip(self.replacements, descriptors, strict=True)
                ],
                "shapes": [{"what": shape.what, "name": shape.kernel.name, "image": shape.kernel.image,
                            "value": list(shape.value)} for shape in self.shapes],
                "jit": [list(pair) for pair in self.jit],
            }, tuple(descriptors)  # fmt: skip
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


AS_CAPTURED = Plan((), (), (), None)


def plan_of(
    variant: Variant,
    reader: SnapshotReader,
    driver: Driver,
    ordinal: int,
    progress: Callable[[str], None] = lambda text: None,
    untrusted: bool = False,
) -> Plan:
    """As `plan_variant`, of any variant."""
    if variant.changes_nothing:
        return Plan((), (), (), VariantFacts(str(variant))) if variant.environment else AS_CAPTURED
    from replay.variants.plan import plan_variant  # brings compilers and readers of images

    return plan_variant(variant, reader, driver, ordinal, progress, untrusted)


class KeptPlans:
    """Plans each variant once, for replays of one window that follow: nothing is compiled a second time."""

    def __init__(self) -> None:
        self._plans: dict[object, Plan] = {}

    def __call__(self, variant: Variant, reader: SnapshotReader, *how: Any) -> Plan:
        """how: the other arguments of `plan_of`, of which a function to tell progress to changes nothing."""
        key = variant, tuple(item for item in how if not callable(item))
        if key not in self._plans:
            self._plans[key] = plan_of(variant, reader, *how)
        return self._plans[key]


def in_memory(data: bytes, name: str = "replay-image") -> int:
    """An open file with this data, which is on no disk. name: as /proc shows it."""
    descriptor = os.memfd_create(name)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor
