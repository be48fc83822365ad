"""What of the user is not kept in files: the home folder, and values that look like secrets. The one place for it.

The home folder becomes `~`. A value becomes `[removed]` when its name says that it is secret (`--api-key=X`,
`--token X`, `AWS_SECRET_ACCESS_KEY=X`, `password: X`), when it is in a URL (`https://user:X@host`, `?token=X`), after
`Bearer`, or when it has the form of a well-known token. docs/limits.md says the same in words; the shim writes
`~` in paths (interposer/record/process.c), and no command line unless it was asked to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from replay.harmless import LINES

REMOVED = "[removed]"

# The end of a name that says so; `--max-tokens`, `--tokenizer` and `--pad-token` do not.
_SECRET = (
    r"(?:(?<!pad[-_])(?<!eos[-_])(?<!bos[-_])(?<!unk[-_])(?<!sep[-_])(?<!cls[-_])(?<!mask[-_])(?<!stop[-_])token"
    r"|secret|password|passwd|passphrase|pwd|credentials?|api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key"
    r"|session[-_]?key|auth[-_]?key|authorization|auth|cookie|access[-_]?key[-_]?id)"
)
_OPTION = re.compile(rf"-{{1,2}}[\w.-]{{0,80}}?{_SECRET}", re.IGNORECASE)
_RULES = (
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,40}://)[^/@\s'\"]+@"), rf"\1{REMOVED}@"),
    (re.compile(r"\b(bearer|basic)(\s+)(?!\[removed\])[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE), rf"\1\2{REMOVED}"),
    # In quotes up to the closing one; else up to a blank or what ends a value in a URL, a call or a list.
    (re.compile(rf"({_SECRET}[\"']?\s*[=:]\s*)([\"'])(?:(?!\2).)*\2", re.IGNORECASE), rf"\1\2{REMOVED}\2"),
    (re.compile(rf"({_SECRET}\s*(?:=|:\s*)(?!bearer\b|basic\b|:))(?!\[removed\])[^\s\"'&;,)\]}}]+", re.IGNORECASE),
     rf"\1{REMOVED}"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}"
                r"|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
                r"|eyJ[\w-]{8,2000}\.eyJ[\w-]{8,}\.[\w-]*)"), REMOVED),
)  # fmt: skip


def home_folder() -> str:
    """Of this user, without a slash at its end; "" where there is none."""
    home = os.path.expanduser("~").rstrip("/")
    return home if home.startswith("/") else ""


def without_home(text: str, home: str | None = None) -> str:
    """`text` with the home folder as `~`, wherever it is a whole path or the beginning of one."""
    home = home_folder() if home is None else home
    if not home or home not in text:
        return text
    return re.sub(rf"(?<![\w./~-]){re.escape(home)}(?![\w.-])", "~", text)


def without_secrets(text: str) -> str:
    """`text` with `[removed]` for what looks like a secret."""
    for rule, instead in _RULES:
        text = rule.sub(instead, text)
    return text


def private(text: str) -> str:
    """Both."""
    return without_home(without_secrets(text))


def private_command(words: Sequence[str]) -> list[str]:
    """The words of a command line. The word after an option that names a secret is one."""
    kept: list[str] = []
    hide = False
    for word in words:
        kept.append(REMOVED if hide else private(word))
        hide = not hide and _OPTION.fullmatch(word) is not None
    return kept


def private_value(value: Any) -> Any:
    """A value of msgpack or JSON with every text private. A list under the name `command` is a command line."""
    if isinstance(value, str):
        return private(value)
    if isinstance(value, dict):
        return {
            name: private_command(item)
            if name == "command" and isinstance(item, list) and all(isinstance(word, str) for word in item)
            else without_home(item)
            if name in LINES and isinstance(item, str)  # code, of which no word is a secret by its name
            else private_value(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return (
            value
            if value and set(map(type, value)) <= {int, float}
            else [private_value(item) for item in value]
        )
    return value
