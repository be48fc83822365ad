"""Nights at a URL, and machines that see them."""

from __future__ import annotations

from replay.fleet.night import begin_night
from replay.fleet.planning import night_at

from ..night_factory import night_of

CLOCK_STEP_S = 0.05  # of the times of files


def begun(place, folder, **of):
    """A night at the URL, planned as one of a folder."""
    planned = night_of(folder, **of)
    return begin_night(place.folder / "night", planned.plan, planned.folder / "matrix.toml", place)


def seen(place):
    """The night, as a machine that did not begin it has it."""
    return night_at(f"{place.url}/night")


def held(place, folder="night"):
    """Names of files at the URL."""
    root = place._at.root.lstrip("/") + "/"
    place._at.files.invalidate_cache()
    names = [str(name).lstrip("/").removeprefix(root) for name in place._at.files.find(place._at.root)]
    return sorted(name for name in names if name.startswith(folder))
