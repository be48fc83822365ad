"""`dataclass` as the standard library has it, made in a quarter of the time: for modules that most commands import.

The standard decorator compiles up to seven methods for each class, half a millisecond, and a command makes a hundred
classes before it begins. Here only `__init__` is compiled; the others are shared. That nothing assigns to a field of a
frozen one is left to the type checker.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(kind=None, /, *, frozen=False):
        """As `dataclasses.dataclass`, with those of its settings that are used here."""
        return _made(kind, frozen) if kind is not None else lambda kind: _made(kind, frozen)

    def _made(kind, frozen):
        if not kind.__doc__:
            kind.__doc__ = kind.__name__  # else the decorator makes one of the signature, which takes long
        kind = dataclasses.dataclass(eq=False, repr=False)(kind)
        names = [item.name for item in dataclasses.fields(kind) if item.compare]
        compared = attrgetter(*names) if names else type

        def __eq__(self, other):
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(compared(self))

        own = vars(kind)
        if own.get("__hash__") is None:
            kind.__hash__ = __hash__ if frozen else None
        if "__eq__" not in own:
            kind.__eq__ = __eq__
        if "__repr__" not in own:
            kind.__repr__ = _representation
        return kind


def _representation(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({', '.join(shown)})"
