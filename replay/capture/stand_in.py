"""The folder in which an application under capture finds libcuda.so.1: the stand-in, whose functions lead to the shim's
wrappers, with the real driver below it (interposer/stand_in)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from replay.drivers import LINKER_NAME, SONAME, Driver, stand_in_library


def make_stand_in(folder: Path, driver: Path) -> Path:
    """`folder`, made and filled with links to the stand-in and to `driver`, a libcuda.so.1.

    Links, not copies: the raw capture may be on a file system from which no code can be loaded (noexec). Raises OSError
    where there can be none, CaptureError when this installation has no stand-in.
    """
    stand_in = stand_in_library()
    real = folder / "real" / SONAME
    real.parent.mkdir(parents=True)
    real.symlink_to(driver.absolute())
    (folder / SONAME).symlink_to(stand_in)
    # Programs that ask for this name find it only where they would have found it.
    if (driver.parent / LINKER_NAME).exists():
        (folder / LINKER_NAME).symlink_to(stand_in)
    return folder


@contextlib.contextmanager
def stand_in_folder(
    raw: Path, driver: Driver, forbidden: str, temporary_folder: Callable[[], str]
) -> Iterator[Path]:
    """Such a folder in the raw capture; in a temporary one where that path has one of the characters `forbidden` in it,
    or its file system has no links. It is removed at the end."""
    top = folder = raw.absolute() / "driver"
    try:
        try:
            if any(mark in str(folder) for mark in forbidden):
                raise OSError
            make_stand_in(folder, driver.library)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            top = Path(tempfile.mkdtemp(prefix="replay-", dir=temporary_folder()))
            folder = make_stand_in(top / "driver", driver.library)
        yield folder
    finally:
        shutil.rmtree(top, ignore_errors=True)


def with_stand_in(preloaded: str, driver: Driver, folder: Path) -> str:
    """LD_PRELOAD with the stand-in instead of the driver, where the user preloads that."""
    items = preloaded.replace(":", " ").split()
    same = [Path(item).is_file() and Path(item).samefile(driver.library) for item in items]
    if not any(same):
        return preloaded
    return ":".join(str(folder / SONAME) if ours else item for item, ours in zip(items, same, strict=True))
