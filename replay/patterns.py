"""Regular expressions that are compiled when they are first used: for modules that most commands import. A short
command uses few of them, and compiling one takes as long as importing a small module."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Later:
    """In place of the compiled pattern: each of its methods, once it is asked for."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def compiled_later(pattern: AnyStr, flags: int | re.RegexFlag = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, but for functions of `re` that take a compiled pattern. An error in the pattern shows when it is
    used."""
    return cast("re.Pattern[AnyStr]", _Later(pattern, flags))
