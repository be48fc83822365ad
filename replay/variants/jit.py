"""Options of the driver's PTX compiler (CUjit_option), by names as people write them. Values as in cuda.h."""

from __future__ import annotations

from collections.abc import Iterable

from replay.errors import UsageError
from replay.records import dataclass

_CACHE_MODES = {"none": 0, "cg": 1, "ca": 2}  # CUjit_cacheMode
_SWITCH = {"on": 1, "off": 0, "1": 1, "0": 0}


@dataclass(frozen=True)
class _Known:
    """number: CUjit_option. limit: the largest value; words: values that have names."""

    number: int
    limit: int = 0
    words: dict[str, int] | None = None


# Options whose value is a buffer, a symbol table, or that concern only LTO IR are left out.
OPTIONS: dict[str, _Known] = {
    "max-registers": _Known(0, 255),
    "threads-per-block": _Known(1, 1024),
    "opt-level": _Known(7, 4),
    "debug-info": _Known(11, words=_SWITCH),
    "lineinfo": _Known(13, words=_SWITCH),
    "cache-mode": _Known(14, words=_CACHE_MODES),
    "position-independent-code": _Known(30, words=_SWITCH),
    "min-cta-per-sm": _Known(31, 64),
    "max-threads-per-block": _Known(32, 1024),
    "override-directive-values": _Known(33, words=_SWITCH),
}


@dataclass(frozen=True)
class JitOption:
    """One option: its name here, its CUjit_option, and the number that the driver is given."""

    name: str
    number: int
    value: int

    def __str__(self) -> str:
        words = OPTIONS[self.name].words
        if words is None:
            return f"{self.name}={self.value}"
        text = next(word for word, value in words.items() if value == self.value)
        return self.name if text == "on" else f"{self.name}={text}"


def parse_jit(texts: Iterable[str]) -> tuple[JitOption, ...]:
    """`opt-level=2,max-registers=64,lineinfo`; a name without a value switches on. Raises UsageError."""
    found: dict[str, JitOption] = {}
    for item in (item.strip() for text in texts for item in text.split(",")):
        name, equals, value = item.partition("=")
        known = OPTIONS.get(name)
        if known is None:
            raise UsageError(
                f"{name!r} is no option of the PTX compiler",
                where="--jit",
                next=f"it has {', '.join(OPTIONS)}",
            )
        if name in found:
            raise UsageError(f"{name} is given twice", where="--jit")
        found[name] = JitOption(name, known.number, _value(name, known, value if equals else "on"))
    return tuple(found.values())


def _value(name: str, known: _Known, text: str) -> int:
    if known.words is not None:
        if text not in known.words:
            raise UsageError(
                f"{name} is {text!r}", where="--jit", next=f"it takes {', '.join(dict.fromkeys(known.words))}"
            )
        return known.words[text]
    if not text.isascii() or not text.isdigit() or not 0 <= int(text[:6]) <= known.limit:
        raise UsageError(f"{name} is {text!r}", where="--jit", next=f"it takes a number up to {known.limit}")
    return int(text)
