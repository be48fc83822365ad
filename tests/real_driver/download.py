"""NVIDIA's driver library as Debian packages it: downloaded into a cache folder, unpacked there, never installed.

usage: python tests/real_driver/download.py            prints for each release its name, and its folder or why not
       python tests/real_driver/download.py archive    prints from where this machine gets its packages

The library starts without a GPU and says that there is none. No part of it belongs to this project. Nothing here needs
root, and the machine's own package lists stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("libcuda1", "libnvidia-ptxjitcompiler1")
# The suite of Debian that has a driver of each branch.
RELEASES = {"535": "bookworm", "550": "trixie", "555": "experimental"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpu-replay-tests" / "nvidia-driver"
LIMIT_S = 120


class Unavailable(Exception):
    """The library cannot be had here; the text says why, in one line."""


def archive() -> str:
    """The address from which this machine gets Debian's packages."""
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for place in places:
        if place.suffix in (".list", ".sources") and place.is_file():
            found = re.search(
                r"^(?:URIs:|deb\b.*?)\s*(https?://\S+/debian)/?(?:\s|$)", place.read_text(), re.M
            )
            if found:
                return found.group(1)
    raise Unavailable("this machine's apt names no archive of Debian's packages")


def run(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {LIMIT_S} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Unavailable(f"{command[0]} failed: {lines[-1]}")


def downloaded(branch: str, cache: Path = CACHE) -> Path:
    """The folder with libcuda.so.1 of the branch; downloads it when it is not there yet.

    Raises Unavailable. Two processes may ask at once: each unpacks into a folder of its own, and one of them is kept.
    """
    if found := library_folder(cache / branch):
        return found
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{tool} is not on PATH")
    source = archive()
    keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    if not keys.is_file():
        raise Unavailable(f"there is no {keys}, the keys of Debian's packages")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{branch}-") as name:
        work = Path(name)
        for folder in ("state/lists/partial", "cache/archives/partial", "unpacked"):
            (work / folder).mkdir(parents=True)
        (work / "sources.list").write_text(
            f"deb [arch=amd64 signed-by={keys}] {source} {RELEASES[branch]} non-free\n"
        )
        options = [
            *("-o", f"Dir::Etc::sourcelist={work / 'sources.list'}", "-o", "Dir::Etc::sourceparts=/dev/null"),
            *("-o", f"Dir::State={work / 'state'}", "-o", f"Dir::Cache={work / 'cache'}"),
            *("-o", "Dir::State::status=/dev/null", "-o", "APT::Architectures=amd64"),
            *("-o", "Acquire::Retries=2", "-o", "APT::Sandbox::User="),
        ]
        run(["apt-get", *options, "-qq", "update"], work)
        run(["apt-get", *options, "-qq", "download", *(f"{package}:amd64" for package in PACKAGES)], work)
        for package in work.glob("*.deb"):
            run(["dpkg-deb", "-x", str(package), str(work / "unpacked")], work)
        if library_folder(work / "unpacked") is None:
            raise Unavailable("the package holds no libcuda.so.1")
        try:
            (work / "unpacked").rename(cache / branch)
        except OSError:
            if library_folder(cache / branch) is None:
                raise
    found = library_folder(cache / branch)
    assert found
    return found


def library_folder(unpacked: Path) -> Path | None:
    """The folder of libcuda.so.1 in an unpacked package."""
    return next((found.parent for found in unpacked.glob("usr/lib/**/libcuda.so.1")), None)


def main() -> None:
    if sys.argv[1:] == ["archive"]:
        try:
            print(archive())
        except Unavailable as error:
            print(error)
            sys.exit(1)
        return
    for branch in RELEASES:
        try:
            print(branch, downloaded(branch))
        except Unavailable as error:
            print(branch, "not to be had:", error)


if __name__ == "__main__":
    main()
