"""Links to pages of others. Their addresses come from strangers: only `https` becomes a link."""

from __future__ import annotations

from urllib.parse import urlsplit

from markupsafe import Markup

from replay.text import shown

LONGEST = 2000


def link(address: str, text: str) -> Markup | str:
    """`text` that leads to an address, which is named where the text does not; of an address that is no plain one of
    `https`, both as text."""
    text = shown(text, 200)
    if not is_safe(address):
        return ", ".join(filter(None, (text, shown(address, 200))))
    return Markup('<a href="{}" rel="noopener noreferrer nofollow">{}</a>').format(
        address, text or shown(address, 200)
    )


def is_safe(address: str) -> bool:
    """Whether it is a plain `https` address: a host, no user, nothing that a browser reads otherwise than it looks."""
    if (
        len(address) > LONGEST
        or not address.isascii()
        or not address.isprintable()
        or set(address) & set(' "<>\\^`{|}')
    ):
        return False
    try:
        parts = urlsplit(address)
        return (
            parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
        )
    except ValueError:
        return False
