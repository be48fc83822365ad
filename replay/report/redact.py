"""Text of `replay redact`: what was done, and then what remains."""

from __future__ import annotations

from collections.abc import Iterator

from replay.redaction.model import BinaryImage, Proof, RedactedBuffer, Redaction
from replay.report.privacy import render_exposure
from replay.text import Screen, fields, heading, number, shown, size, some

SHOWN_BUFFERS = 20
SHOWN_NAMES = 8  # of kernels and images
_PROVEN = {
    "same": "replayed: the same control flow, instruction by instruction",
    "outputs": "replayed: the outputs are those that it is kept with",
    "none": "not replayed",
}


def render_redaction(found: Redaction, screen: Screen) -> str:
    """What was taken out, how that was proven, what can still be read, and whose code is inside."""
    change = found.file_bytes - found.original_bytes
    parts = [heading(f"{shown(found.path)}: redacted, level {found.level}", screen)]
    parts.append(fields(_facts(found, change), screen))
    if found.buffers:
        parts += ["", heading("Contents", screen), *map(_buffer, found.buffers[:SHOWN_BUFFERS])]
        if len(found.buffers) > SHOWN_BUFFERS:
            parts.append(f"  ... {len(found.buffers) - SHOWN_BUFFERS} more: --json has them")
    if found.binaries:
        parts += ["", heading("Machine code inside, which may not be yours to pass on", screen)]
        parts += [f"  {binary_line(item)}" for item in found.binaries]
    return "\n".join([*parts, "", render_exposure(found.remains, screen)])


def binary_line(item: BinaryImage) -> str:
    """An image with machine code, and whose it may be."""
    owners = f"; by their names from {', '.join(item.owners)}" if item.owners else ""
    return (
        f"{item.digest[:12]} {item.kind}, {size(item.size_bytes)}, {number(item.kernels, 'kernel')}{owners}"
    )


def proof_line(proof: Proof) -> str:
    """How it was proven, and what was not compared."""
    return _PROVEN[proof.state] + (f" ({shown(proof.reason)})" if proof.reason else "")


def _facts(found: Redaction, change: int) -> Iterator[tuple[str, str]]:
    yield "size", f"{size(found.file_bytes)} ({'+' if change > 0 else '-'}{size(abs(change))})"
    texts = sorted({text for texts in found.stripped.values() for text in texts})
    yield "images", f"without {', '.join(texts)}" if texts else "nothing was left to take out"
    yield "proof", proof_line(found.proof)
    if found.remade_outputs:
        yield "outputs", "of a replay of the redacted inputs, not of the application"
    if found.renamed:
        pairs = [f"{new} was {shown(name, 80)}" for name, new in found.renamed.items()]
        yield "renamed", some(pairs, SHOWN_NAMES)
        yield "machine code", "a driver makes other machine code of a PTX with other names; times may differ"
    for digest, new in [*found.digests.items()][:SHOWN_NAMES]:
        left_out = ", without its machine code" if digest in found.recompiled else ""
        yield "image", f"{shown(digest)} is now {shown(new)}{left_out}"
    for note in found.notes:
        yield "note", shown(note)


def _buffer(item: RedactedBuffer) -> str:
    types = f" ({', '.join(item.types)})" if item.types else ""
    parts = [
        text
        for count, text in (
            (item.noise_bytes, f"{size(item.noise_bytes)} noise{types}"),
            (item.zeroed_bytes, f"{size(item.zeroed_bytes)} zeros, which no kernel reads"),
            (item.exact_bytes, f"{size(item.exact_bytes)} as captured"),
        )
        if count
    ]
    window = "" if item.window is None else f"window {item.window}: "
    reason = f": {shown(item.reason)}" if item.reason else ""
    return f"  {window}{item.id} {shown(item.what)}: {'; '.join(parts)}{reason}"
