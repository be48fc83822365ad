"""`dataclass` as the standard library has it, made in a tenth of the time: for modules that most commands import.

The standard decorator compiles up to seven methods for each class, half a millisecond, and a command makes a hundred
classes before it begins, most of which it never uses. Here only `__init__` is compiled, when the first object is made,
and the fields are looked at when somebody asks for them. That nothing assigns to a field of a frozen one is left to the
type checker.
"""

from __future__ import annotations

from operator import attrgetter
from threading import RLock
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
        own = vars(kind)

        def complete():
            """Do what was put off. Other threads find the class as it was before, or whole."""
            with _COMPLETING:
                if not isinstance(own["__dataclass_fields__"], _Later):
                    return
                dataclasses.dataclass(init=False, eq=False, repr=False)(kind)
                fields = dataclasses.fields(kind)
                kind.__match_args__ = tuple(field.name for field in fields if field.init)
                if own["__init__"] is __init__:
                    kind.__init__ = _initialiser(kind, fields)

        def compared(item):
            nonlocal compared
            names = [field.name for field in dataclasses.fields(kind) if field.compare]
            compared = attrgetter(*names) if names else type
            return compared(item)

        def __init__(self, /, *given, **named):
            complete()
            kind.__init__(self, *given, **named)

        def __eq__(self, other):
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(compared(self))

        if own.get("__hash__") is None:
            kind.__hash__ = __hash__ if frozen else None
        for name, value in (("__init__", __init__), ("__eq__", __eq__), ("__repr__", _representation)):
            if name not in own:
                setattr(kind, name, value)
        for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
            setattr(kind, name, _Later(name, complete))
        return kind

    def _initialiser(kind, fields):
        """The `__init__` that the standard decorator makes, which looks at all fields once more for it."""
        known = {"_not_given": object()}
        parameters, lines = ["self"], []
        for number, field in enumerate(fields):
            name, made = field.name, field.default_factory is not dataclasses.MISSING
            known[f"_{number}"] = field.default_factory if made else field.default
            if field.init:
                optional = (
                    "=_not_given" if made else f"=_{number}" * (field.default is not dataclasses.MISSING)
                )
                parameters.append(name + optional)
                lines.append(
                    f" self.{name} = " + (f"_{number}() if {name} is _not_given else " * made) + name
                )
            elif made:
                lines.append(f" self.{name} = _{number}()")
        if hasattr(kind, "__post_init__"):
            lines.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), known)
        known["__init__"].__qualname__ = f"{kind.__qualname__}.__init__"
        return known["__init__"]

    _COMPLETING = RLock()

    class _Later:
        """In place of what the standard decorator gives a class, until somebody asks for it."""

        def __init__(self, name, complete):
            self._name, self._complete = name, complete

        def __get__(self, instance, owner):
            self._complete()
            return getattr(owner, self._name)


def _representation(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({', '.join(shown)})"
