"""The one folder that tools may name files in. Every path is resolved, links included, before it is looked at."""

from __future__ import annotations

from pathlib import Path

from replay.errors import FileError, UsageError
from replay.variants.model import refuse_program

_IN_VARIANTS = frozenset("=@,\n")  # characters by which the text of a variant is taken apart


class Root:
    """Names of files, checked. What is outside is refused in the same words whether it is there or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        if not self.folder.is_dir():
            raise FileError("is no folder", where=folder, next="name a folder with snapshots as --root")

    def file(self, name: str) -> Path:
        """A file that is there. Raises UsageError, FileError."""
        path = self._inside(name)
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "there is no such file"
            raise FileError(what, where=name, next="the tool files lists those that are there")
        return path

    def image(self, name: str) -> Path:
        """A file that a variant names. Raises UsageError, FileError."""
        path = self.file(name)
        refuse_program(path.name, name)
        if _IN_VARIANTS & {*str(path)}:
            raise UsageError(
                "has =, @ or a comma in its path, which variants take apart", where=name, next="rename it"
            )
        return path

    def new_file(self, name: str, suffixes: tuple[str, ...]) -> Path:
        """A file that is not there yet. Raises UsageError."""
        path = self._inside(name)
        if path.exists() or path.is_symlink():
            raise UsageError("is there already", where=name, next="choose another name")
        if path.suffix not in suffixes:
            raise UsageError(f"does not end in {' or '.join(suffixes)}", where=name)
        return path

    def files(self, pattern: str = "*") -> list[str]:
        """Names of files that match, sorted. Links that lead out are left out. Raises UsageError."""
        if pattern.startswith("/") or ".." in Path(pattern).parts:
            raise UsageError("a pattern stays inside of the folder", where=pattern)
        try:
            found = [path for path in self.folder.rglob(pattern or "*") if path.is_file()]
        except (ValueError, NotImplementedError) as error:
            raise UsageError(f"is no pattern ({error})", where=pattern) from None
        inside = (path for path in found if path.resolve().is_relative_to(self.folder))
        return sorted(str(path.relative_to(self.folder)) for path in inside)

    def _inside(self, name: str) -> Path:
        if not name or "\0" in name:
            raise UsageError("names no file")
        try:
            path = (self.folder / name).resolve()
        except (OSError, RuntimeError):  # a link to itself
            raise UsageError("names no file", where=name) from None
        if not path.is_relative_to(self.folder):
            raise UsageError("is outside of the folder that is served", where=name, next="name a file in it")
        return path
