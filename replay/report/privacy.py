"""Text of `replay info --privacy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from replay.inspection.exposure import Exposure, ReadableImage, ReadableRange
from replay.inspection.texts import Kinds, Texts
from replay.text import ALL_ROWS, Screen, fields, flow, heading, number, shown, size

T = TypeVar("T")
SHOWN_NAMES = 8  # of one sort
SHOWN_PLACES = 12
SHOWN_NAME = 160
_KINDS = {
    "zeros": "zeros",
    "text": "text",
    "floats": "floats",
    "random": "random or compressed",
    "other": "other",
}


def render_exposure(found: Exposure, screen: Screen) -> str:
    """What a stranger could read, the most telling first."""
    parts = [heading(f"{shown(found.path)}: what a stranger can read in {size(found.file_bytes)}", screen)]
    parts.append(fields(_names(found), screen))
    memory = f"{number(found.range_count, 'allocation')}: {_kinds(found.contents)}"
    parts += ["", heading("Memory", screen), fields([("contents", memory)], screen)]
    parts += _places(found.ranges, _range_line, found.range_count, screen)
    parts += ["", heading("Module images", screen)]
    parts += _places(found.images, _image_line, len(found.images), screen)
    if found.argument_bytes:
        line = f"{size(found.argument_bytes)} that the host gave or got; {_texts(found.arguments)}"
        parts += [
            "",
            heading("Arguments of calls", screen),
            flow(f"  {line}", screen),
            *_samples(found.arguments),
        ]
    parts += ["", *(flow(shown(note), screen) for note in found.notes)] if found.notes else []
    unseen = "Not looked into: data that is compressed or encrypted inside of memory, and other alphabets than ASCII."
    parts += ["", flow(unseen, screen)]
    return "\n".join(parts)


def _names(found: Exposure) -> Iterator[tuple[str, str]]:
    for sort, names in found.names.items():
        more = f", ... {len(names)} in all" if len(names) > SHOWN_NAMES else ""
        yield sort, ", ".join(shown(name, SHOWN_NAME) for name in names[:SHOWN_NAMES]) + more


def _kinds(kinds: Kinds) -> str:
    total = sum(kinds.bytes_by_kind.values())
    if not total:
        return "no contents"
    ordered = sorted(kinds.bytes_by_kind.items(), key=lambda item: -item[1])
    shares = ", ".join(f"{100 * count / total:.0f} % {_KINDS[kind]}" for kind, count in ordered)
    entropy = f"; {kinds.entropy_bits:.1f} bits of entropy a byte" if kinds.chunks else ""
    return f"{size(total)}, {shares}{entropy}"


def _texts(texts: Texts) -> str:
    if not texts.count:
        return "no text"
    some = f"{number(texts.count, 'text')} of {texts.characters:,} characters"
    return some + (f", {texts.suspicious} like secrets, paths or addresses" if texts.suspicious else "")


def _samples(texts: Texts) -> list[str]:
    return [f"    {shown(text)}" for text in texts.samples]


def _range_line(item: ReadableRange) -> tuple[str, Texts]:
    return f"{shown(item.what, SHOWN_NAME)}: {_kinds(item.contents)}; {_texts(item.texts)}", item.texts


def _image_line(item: ReadableImage) -> tuple[str, Texts]:
    gone = f"; without {', '.join(map(shown, item.stripped))}" if item.stripped else ""
    unread = f"; not all was read: {shown(item.unread)}" if item.unread else ""
    line = (
        f"{shown(item.digest[:12])} {item.kind}, {size(item.size_bytes)}{gone}; {_texts(item.texts)}{unread}"
    )
    return line, item.texts


def _places(
    items: Sequence[T], line: Callable[[T], tuple[str, Texts]], count: int, screen: Screen
) -> Iterator[str]:
    most = screen.most(SHOWN_PLACES)
    for item in items[:most]:
        text, texts = line(item)
        yield flow(f"  {text}", screen)
        yield from _samples(texts)
    if count > most:
        yield f"  ... and {count - most:,} more: {ALL_ROWS}"
