"""Where the launches of a window came from, as a tree of NVTX ranges and Python frames: of a snapshot that has them."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable

from replay.inspection.origins import RANGE, LaunchOrigins, own_frames, place_text, ranges
from replay.overview.model import Branch, Timeline
from replay.snapshot.schema import Frame
from replay.text import shown

MOST_FRAMES = 30  # of a stack, the innermost
MOST_PATHS = 4_000  # different stacks and kernels
LONGEST_TEXT = 200


def came_from(timeline: Timeline, origins: LaunchOrigins) -> Branch | None:
    """Of the launches of a timeline, their kernels as leaves. By their GPU time, where one that was not timed counts as
    the mean of those of its kernel; by how many they are where a kernel has no time. None where no frames are known."""
    launches = [place for place, kind in enumerate(timeline.which) if timeline.kinds[kind].sort == "launch"]
    known: dict[str, list[int]] = defaultdict(list)
    for place in launches:
        if timeline.gpu_ns[place] >= 0:
            known[_kernel(timeline, place)].append(timeline.gpu_ns[place])
    means = {kernel: sum(times) / len(times) for kernel, times in known.items()}
    timed = {_kernel(timeline, place) for place in launches} <= means.keys()
    found: Counter[tuple[str, int]] = Counter()  # by kernel and stack
    weights: dict[tuple[str, int], float] = defaultdict(float)
    stacks: dict[int, list[Frame]] = {}
    for place in launches:
        frames = origins.at(timeline.kinds[timeline.which[place]].thread, timeline.numbers[place])
        stacks[id(frames)] = frames
        key = _kernel(timeline, place), id(frames)
        found[key] += 1
        time_ns = timeline.gpu_ns[place]
        weights[key] += 1 if not timed else time_ns if time_ns >= 0 else means[key[0]]
    if not any(stacks.values()):
        return None
    root = Branch("all launches", "", timed=timed)
    ordered = found.most_common()
    for key, count in ordered[:MOST_PATHS]:
        _add(root, _path(stacks[key[1]], key[0]), count, weights[key])
    if rest := ordered[MOST_PATHS:]:
        _add(root, [("others", "")], sum(count for _, count in rest), sum(weights[key] for key, _ in rest))
    return root


def _kernel(timeline: Timeline, place: int) -> str:
    kind = timeline.kinds[timeline.which[place]]
    return kind.kernel or kind.function


def _path(frames: list[Frame], kernel: str) -> Iterable[tuple[str, str]]:
    """(short, whole) of each level, the outermost first."""
    for one in reversed(ranges(frames)[:MOST_FRAMES]):
        text = place_text(one)
        yield shown(text.removeprefix(RANGE), LONGEST_TEXT), shown(text, LONGEST_TEXT)
    for frame in reversed(own_frames(frames)[:MOST_FRAMES]):
        file = posixpath.basename(frame.file) + (f":{frame.line}" if frame.line >= 0 else "")
        name = f"{frame.function} ({file})" if frame.function else file
        yield shown(name, LONGEST_TEXT), shown(place_text(frame), LONGEST_TEXT)
    if not frames:
        yield "not known", ""
    yield shown(kernel, LONGEST_TEXT), ""


def _add(root: Branch, path: Iterable[tuple[str, str]], launches: int, weight: float) -> None:
    branch = root
    branch.launches += launches
    branch.weight += weight
    for name, place in path:
        branch = branch.branches.setdefault((name, place), Branch(name, place))
        branch.launches += launches
        branch.weight += weight
