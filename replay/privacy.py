"""What of the user's is not kept in files that are passed on. The one place for its rules; docs/privacy.md has them in
words.

A path becomes relative to the working folder, or the name of its file; those of the system stay. A value becomes
`[removed]` when its name says that it is secret (`--api-key=X`, `--token X`, `AWS_SECRET_ACCESS_KEY=X`, `password: X`),
when it is in a URL (`https://user:X@host`, `?sig=X`), after `Bearer`, when it has the form of a well-known token, and
in command lines when it looks random. The user's name becomes `[user]`, that of the host `[host]`. The shim writes
`~` in paths (interposer/record/process.c), and no command line unless it was asked to: a raw capture is not for passing
on.
"""

from __future__ import annotations

import os
import pwd
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from replay.harmless import LINES
from replay.patterns import compiled_later

REMOVED = "[removed]"
USER, HOST = "[user]", "[host]"

# The end of a name that says so; `--max-tokens`, `--tokenizer` and `--pad-token` do not.
_SECRET = (
    r"(?:(?<!pad[-_])(?<!eos[-_])(?<!bos[-_])(?<!unk[-_])(?<!sep[-_])(?<!cls[-_])(?<!mask[-_])(?<!stop[-_])token"
    r"|secret|password|passwd|passphrase|pwd|credentials?|api[-_]?key|access[-_]?key|secret[-_]?key|private[-_]?key"
    r"|session[-_]?key|auth[-_]?key|authorization|auth|cookie|access[-_]?key[-_]?id)"
)
_OPTION = compiled_later(rf"-{{1,2}}[\w.-]{{0,80}}?{_SECRET}", re.IGNORECASE)
_SIGNED = compiled_later(
    r"(?:sig|signature|token|key|secret|credential|password|auth)[\w%-]{0,40}=", re.IGNORECASE
)
# Each after texts of which one is in all that it finds: a search takes a microsecond a character.
_RULES: tuple[tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (("://",), compiled_later(r"([A-Za-z][A-Za-z0-9+.-]{0,40}://)[^/@\s'\"]+@"), rf"\1{REMOVED}@"),
    (("://",), compiled_later(r"://[^\s'\"]+"), lambda found: _without_query(found[0])),
    (("",), compiled_later(r"\b(bearer|basic)(\s+)(?!\[removed\])[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE),
     rf"\1\2{REMOVED}"),
    # In quotes up to the closing one; else up to a blank or what ends a value in a URL, a call or a list.
    (("=", ":"), compiled_later(rf"({_SECRET}[\"']?\s*[=:]\s*)([\"'])(?:(?!\2).)*\2", re.IGNORECASE),
     rf"\1\2{REMOVED}\2"),
    (("=", ":"), compiled_later(rf"({_SECRET}\s*(?:=|:\s*)(?!bearer\b|basic\b|:))(?!\[removed\])[^\s\"'&;,)\]}}]+",
                            re.IGNORECASE), rf"\1{REMOVED}"),
    (("",), compiled_later(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}"
                r"|sk-[A-Za-z0-9_-]{20,}|glpat-[\w-]{16,}|xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
                r"|eyJ[\w-]{8,2000}\.eyJ[\w-]{8,}\.[\w-]*)"), REMOVED),
)  # fmt: skip


def _without_query(url: str) -> str:
    """From `://` on, without its query if a name in there is that of a secret."""
    begin = 0
    for mark in re.finditer(r"[?#]", url):
        address = url.find("://", begin, mark.start())
        if mark[0] == "?" and 0 <= address < mark.start() - 3:
            return url[: mark.end()] + REMOVED if _SIGNED.search(url, mark.end()) else url
        begin = mark.end()
    return url


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
    for needed, rule, instead in _RULES:
        if any(part in text for part in needed):
            text = rule.sub(instead, text)
    return text


# ---- words that look random ---------------------------------------------------------------------

RANDOM_CHARACTERS = 20  # letters and digits in a row; without capitals or without small letters four more
# Bits a character: of two at different places, as many pairs are equal as in text drawn from 2 ** 4.4 characters.
# Drawn from 62 or 36 it is 6.0 or 5.2, of words and names of kernels 3.5 to 4.2.
_COLLISION_ENTROPY_BITS = 4.4
_WORDS = 0.45  # of the characters are in rows of three small letters and more: names in camel case have more
_CLASS_CHANGES = 0.2  # of all neighbours, where one is a small letter, capital or digit and the next is not
_MARKS = 3  # of a key of 256 bits that is written in base64 for URLs, - and _, at most, as a rule
_RUN = compiled_later(rf"[A-Za-z0-9+/_~-]{{{RANDOM_CHARACTERS},}}={{0,2}}")
_PIECE = compiled_later(rf"[A-Za-z0-9]{{{RANDOM_CHARACTERS},}}")
_SHAPE = compiled_later(r"\d+(?:x\d+)+")
_CLASSES = str.maketrans({**dict.fromkeys("abcdefghijklmnopqrstuvwxyz", "a"),
                          **dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "A"),
                          **dict.fromkeys("0123456789", "0")})  # fmt: skip


def looks_random(piece: str) -> bool:
    """Whether letters and digits look drawn by lot: no hexadecimal digest, no mangled name, no shape, no words."""
    classes = piece.translate(_CLASSES)
    kinds = set(classes)
    shortest = RANDOM_CHARACTERS if len(kinds) == 3 else RANDOM_CHARACTERS + 4
    if "0" not in kinds or len(kinds) < 2 or len(piece) < shortest:
        return False
    if re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", piece):
        return False
    if len(kinds) == 3 and sum(map(len, re.findall("a{3,}", classes))) > _WORDS * len(piece):
        return False
    # A capital begins a word: only what comes before it counts as a change.
    changes = sum(a != b and a + b != "Aa" for a, b in zip(classes, classes[1:], strict=False))
    equal = sum(count * (count - 1) for count in Counter(piece).values()) / (len(piece) * (len(piece) - 1))
    return changes >= _CLASS_CHANGES * (len(piece) - 1) and equal <= 2**-_COLLISION_ENTROPY_BITS


def without_random_words(text: str) -> str:
    """`text` with `[removed]` for runs of the characters of base64 in which a piece looks random."""

    def instead(found: re.Match[str]) -> str:
        run = found[0]
        if run.startswith("_Z"):  # a mangled name
            return run
        pieces = _PIECE.findall(run)
        marks = len(run) - sum(map(str.isalnum, run))
        if (
            "+" in run or run.endswith("=") or (marks <= _MARKS and "/" not in run)
        ):  # base64, of either alphabet
            pieces.append("".join(filter(str.isalnum, run)))
        pieces = [_SHAPE.sub("", piece) for piece in pieces]
        return REMOVED if any(map(looks_random, pieces)) else run

    return _RUN.sub(instead, text)


# ---- paths and names ----------------------------------------------------------------------------

_SYSTEM = (
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/dev/",
    "/proc/",
    "/sys/",
    "/etc/",
)  # the same everywhere
_PATH = compiled_later(r"(?<![^\s='\"(\[,:;<>|@`])(?:file://)?((?:~[\w.-]*)?/(?:[^\s/:;,'\"`()<>\[\]{}|&=*?#]+/)+"
                   r"[^\s/:;,'\"`()<>\[\]{}|&=*?#]*|~/[^\s/:;,'\"`()<>\[\]{}|&=*?#]+)")  # fmt: skip
_NOBODY = frozenset(
    {"root", "user", "admin", "ubuntu", "debian", "runner", "nobody", "guest", "test", "docker", "jovyan", "build",
     "localhost", "host", "home", "cuda", "kernel", "none"}
)  # fmt: skip


class Paths:
    """Short names of the paths of one document: two paths never get the same one."""

    def __init__(self) -> None:
        try:
            self._folder = os.getcwd().rstrip("/") + "/"
        except FileNotFoundError:  # the folder was removed
            self._folder = "\0"
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}  # number of the latest one of a name

    def short(self, path: str) -> str:
        """Relative to the working folder, or the name of the file; of the system, or relative already: as it is."""
        if path.startswith(_SYSTEM) or not path.startswith(("/", "~")):
            return path
        if path.startswith(self._folder):
            return path[len(self._folder) :] or "."
        if path not in self._names:
            if path.rstrip("/") + "/" == self._folder:
                return "."
            name = path.rstrip("/").rpartition("/")[2] or path
            again, number = name, self._last.get(name, 1)
            while again in self._taken:
                number += 1
                again = f"{name}#{number}"
            self._last[name] = number
            self._taken.add(again)
            self._names[path] = again
        return self._names[path]

    def in_text(self, text: str) -> str:
        """`text` with each path short."""
        if "/" not in text:
            return text
        return _PATH.sub(lambda found: self.short(found[1]), text)


@lru_cache(maxsize=4)
def _account(number: int) -> tuple[str, str]:
    try:
        entry = pwd.getpwuid(number)
    except KeyError:
        return "", ""
    return entry.pw_name, entry.pw_dir


def _users() -> frozenset[str]:
    account, folder = _account(os.getuid())
    homes = (home_folder(), folder, os.environ.get("HOME", ""))
    names = {account, *(home.rstrip("/").rpartition("/")[2] for home in homes)}
    names |= {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
    return frozenset(names - _NOBODY - {""})


def _hosts() -> frozenset[str]:
    names = {os.uname().nodename, os.environ.get("HOSTNAME", "")}
    return frozenset(names | {name.partition(".")[0] for name in names}) - _NOBODY - {""}


@lru_cache(maxsize=8)
def _name_rules(users: frozenset[str], hosts: frozenset[str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """In paths and addresses; then as whole words, where three characters are enough to say something."""

    def any_of(names: frozenset[str], shortest: int) -> str:
        return "|".join(
            re.escape(name) for name in sorted(names, key=len, reverse=True) if len(name) >= shortest
        )

    rules = []
    if every := any_of(users, 1):
        rules.append((re.compile(rf"(?<=/)(?:{every})(?=/|$)|(?<![\w.-])(?:{every})(?=/|@)"), USER))
    if every := any_of(hosts, 1):
        rules.append((re.compile(rf"(?<=@)(?:{every})(?![\w-])|(?<=://)(?:{every})(?![\w-])"), HOST))
    both = len(rules)
    for names, instead in ((users, USER), (hosts, HOST)):
        if every := any_of(names, 3):
            rules.append((re.compile(rf"(?<![\w-])(?:{every})(?![\w-])"), instead))
    return (*rules[:both], (compiled_later(""), ""), *rules[both:])


def _without_names(text: str, words: bool) -> str:
    if not words and "/" not in text and "@" not in text:  # as most texts of a large document
        return text
    for rule, instead in _name_rules(_users(), _hosts()):
        if not instead:
            if not words:
                break
            continue
        text = rule.sub(instead, text)
    return text


def private(text: str, paths: Paths | None = None) -> str:
    """A text in which names of kernels may be: without secrets, paths, and names of user and host in addresses."""
    return _without_names((paths or Paths()).in_text(without_secrets(text)), words=False)


def without_places(text: str) -> str:
    """Text with markup, made of what is private already: without paths, and names of user and host in addresses."""
    return _without_names(Paths().in_text(text), words=False)


def private_message(text: str, paths: Paths | None = None) -> str:
    """What a driver or system said: likewise, and names of user and host wherever they are a word."""
    return _without_names(private(text, paths), words=True)


# ---- command lines ------------------------------------------------------------------------------

_NAME = compiled_later(r"-{0,2}[A-Za-z_][\w.-]{0,80}")
_SAYS_SECRET = frozenset(
    {"secret", "secrets", "password", "passwd", "passphrase", "pwd", "credential", "credentials", "auth",
     "authorization", "cookie", "apikey"}
)  # fmt: skip
_SAYS_KEY = frozenset({"key", "keys", "token", "keyfile", "pat"})
_NO_KEY = frozenset({"pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop"})
_HARMLESS_VALUE = compiled_later(
    r"[+-]?\d{0,9}(?:\.\d{0,9})?|true|false|yes|no|on|off|none|</?\w{1,8}>", re.IGNORECASE
)


def _names_secret(name: str, value: str) -> bool:
    """Whether the name of an option or a variable says that its value is secret."""
    if _OPTION.fullmatch(name) or re.fullmatch(rf"[\w.-]{{0,80}}{_SECRET}", name, re.IGNORECASE):
        return True
    parts = re.split(r"[-_.]+", name.lower().lstrip("-"))
    if not _SAYS_SECRET.isdisjoint(parts):
        return True
    keyed = not _SAYS_KEY.isdisjoint(parts) and _NO_KEY.isdisjoint(parts)
    return keyed and (len(parts) > 1 or name.startswith("-")) and not _HARMLESS_VALUE.fullmatch(value)


def _private_word(word: str, paths: Paths) -> str:
    name, equals, value = word.partition("=")
    if not equals or not _NAME.fullmatch(name):
        name = equals = ""
        value = word
    elif _names_secret(name, value):
        return f"{name}={REMOVED}"
    if value.startswith(("/", "~/")) and not re.search(r"[:;,]/", value):
        value = paths.short(value)  # all of it, blanks too
    else:
        value = paths.in_text(without_secrets(value))
    return without_secrets(_without_names(name + equals + without_random_words(value), words=True))


def private_command(words: Sequence[str], paths: Paths | None = None) -> list[str]:
    """The words of a command line. The word after an option that names a secret is one."""
    paths = paths or Paths()
    kept: list[str] = []
    option = ""
    for word in words:
        hide = option and not (word.startswith("-") and _NAME.fullmatch(word)) and _names_secret(option, word)
        kept.append(REMOVED if hide else _private_word(word, paths))
        option = word if not hide and word.startswith("-") and _NAME.fullmatch(word) else ""
    return kept


def private_line(line: str) -> str:
    """A command line as one text, words between blanks."""
    return " ".join(private_command(line.split(" ")))


def private_value(value: Any, paths: Paths | None = None) -> Any:
    """A value of msgpack or JSON with every text private. A list under the name `command` is a command line."""
    paths = paths or Paths()
    if isinstance(value, str):
        return private(value, paths)
    if isinstance(value, dict):
        return {
            name: private_command(item, paths)
            if name == "command" and isinstance(item, list) and all(isinstance(word, str) for word in item)
            else without_home(item)
            if name in LINES and isinstance(item, str)  # code, of which no word is a secret by its name
            else private_value(item, paths)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return (
            value
            if value and set(map(type, value)) <= {int, float}
            else [private_value(item, paths) for item in value]
        )
    return value
