"""Makes the pictures of README and docs: pages of samples, captured on the CPU driver, in headless Chromium.

    python docs/pictures/make.py            # needs Chromium and a C compiler
    python docs/pictures/make.py --check    # whether they are of the pages as they are now; needs neither

Times and addresses in them are those of the day. So what is checked is not their pixels but a digest of what draws
them: this file, and the templates, style and scripts of the pages.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DIGEST = HERE / "digest.txt"
HTML = ROOT / "replay" / "report" / "html"
MADE_FROM = (
    "*.css",
    "*.js",
    "*.jinja",
    "drawing.py",
    "spread.py",
    "snapshot/*.css",
    "snapshot/*.js",
    "snapshot/*.jinja",
)


@dataclass(frozen=True)
class Picture:
    """name: of the file. page: which one it is of. place: what comes after the # of its address. part: what of the
    page is seen. width: of the browser."""

    name: str
    page: str
    place: str
    part: str
    width: int = 1200
    scheme: str = "light"
    most: int = 900


PICTURES = (
    Picture("snapshot", "two_streams", "all", "article header"),
    Picture("timeline", "two_streams", "x=order&q=consume", "[id^=timeline]"),
    Picture("timeline-many", "many", "x=order&t=2000,2060", "[id^=timeline]", scheme="dark"),
    Picture("memory", "pointer_table", "memory=8", ".memory", most=760),
    Picture("pointers", "pointer_table", "memory=1&map=address", ".memory", scheme="dark", most=620),
    Picture("kernels", "many", "all", "[id^=kernels]"),
    Picture("needs", "two_streams", "all", "[id^=needs]"),
    Picture("telephone", "two_streams", "all", "article", 400, most=1100),
    Picture("result", "result", "", "main", most=1500),
    Picture("compare", "compare", "", "main", scheme="dark", most=1300),
    Picture("bisect", "bisect", "", "main", most=1100),
    Picture("history", "history", "", "main", most=1100),
)
# Of pages of findings: the sample, and the noise and the slow-down that the CPU driver makes up, so that there is
# something to see.
_NOISE = {"REPLAY_EMULATOR_NOISE": "0.01", "REPLAY_EMULATOR_PROCESS_NOISE": "0.004"}
_SLOW = "REPLAY_EMULATOR_SLOWDOWN=vector_add"


def main() -> int:
    """Make them, or say whether that has to be done again."""
    if sys.argv[1:] == ["--check"]:
        lacking = [picture.name for picture in PICTURES if not (HERE / f"{picture.name}.png").is_file()]
        if lacking or not DIGEST.is_file() or DIGEST.read_text().strip() != digest():
            print("docs/pictures are of other pages than those of today: make pictures", file=sys.stderr)
            return 1
        return 0
    sys.path.append(str(ROOT / "tests" / "unit" / "helpers"))
    from chromium import Chromium

    with tempfile.TemporaryDirectory(prefix="replay-pictures-") as name:
        folder = Path(name)
        pages = {page: made(folder, page) for page in sorted({picture.page for picture in PICTURES})}
        with Chromium(folder) as browser:
            for picture in PICTURES:
                take(browser, picture, pages[picture.page])
    DIGEST.write_text(digest() + "\n")
    return 0


def digest() -> str:
    """Of what the pictures are made from."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(path for pattern in MADE_FROM for path in HTML.glob(pattern)):
        found.update(f"{path.relative_to(HTML)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def made(folder: Path, page: str) -> Path:
    """The page of a sample, or of the program of a benchmark, or of what a command found."""
    if page in ("result", "compare", "bisect", "history"):
        return found(folder, page)
    snapshot, target = captured(folder, page), folder / f"{page}.html"
    replay(folder, "report", "-q", snapshot.name, "-o", target.name)
    return target


def captured(folder: Path, page: str) -> Path:
    """A snapshot."""
    snapshot, choice = folder / f"{page}.rsnap", ["--all"]
    if page == "many":
        program = [sys.executable, str(ROOT / "benchmarks" / "many_launches.py"), "5000"]
    else:
        subprocess.run(["make", "-s", "-C", str(ROOT / "samples"), f"OUT={folder}/samples"], check=True)
        program = [str(folder / "samples" / page)]
        launches = {"pointer_table": "3", "vector_add": "2"}
        choice = ["--kernel", page, "--launch", launches[page]] if page in launches else choice
    replay(folder, "capture", "-q", *choice, "-o", snapshot.name, "--", *program)
    return snapshot


def found(folder: Path, page: str) -> Path:
    """The page of a result, a comparison, a bisection or a history, all of one sample."""
    snapshot = folder / "vector_add.rsnap"
    if not snapshot.exists():
        captured(folder, "vector_add")
    name, target = snapshot.name, folder / f"{page}.html"
    if page == "result":
        replay(folder, "run", "-q", name, "--counters", "--samples", "200", "-o", "r.rres", **_NOISE)
        source = "r.rres"
    elif page == "compare":
        source = "c.json"
        replay(
            folder, "compare", "-q", name, "--b", f"env={_SLOW}:1.03", "--rounds", "8", "-o", source, **_NOISE
        )
    elif page == "bisect":
        source, lines = "b.json", [f"env={_SLOW}:{1 + 0.03 * (at > 5)} env=BUILD={at}" for at in range(1, 13)]
        (folder / "builds.txt").write_text("\n".join(lines) + "\n")
        replay(folder, "bisect", "-q", name, "--over", "list=builds.txt", "-o", source)
    else:
        source = "results"
        for at in range(10):
            level = {"REPLAY_EMULATOR_SLOWDOWN": f"vector_add:{1.06 if at > 5 else 1}",
                     "REPLAY_EMULATOR_PROCESS_NOISE": "0.004", "REPLAY_EMULATOR_NOISE_SEED": str(at)}  # fmt: skip
            replay(folder, "run", "-q", "--quick", name, "--history", source, **level)
    replay(folder, "report", "-q", source, "-o", target.name)
    return target


def replay(folder: Path, *words: str, **environment: str) -> None:
    """The command, in this folder."""
    known = {**os.environ, "PYTHONSAFEPATH": "1", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "replay", *words], env=known, cwd=folder, stdout=subprocess.DEVNULL
    )
    if done.returncode not in (0, 1):
        sys.exit(f"replay {' '.join(words)} ended with {done.returncode}")


def take(browser: object, picture: Picture, page: Path) -> None:
    """One picture, of one part of a page."""
    browser.open(page, picture.width, 1000, picture.scheme, place=picture.place)  # type: ignore[attr-defined]
    box = browser.run(  # type: ignore[attr-defined]
        f"(box => ({{ x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height }}))"
        f"(document.querySelector({picture.part!r}).getBoundingClientRect())"
    )
    clip = {"x": max(0, box["x"] - 12), "y": max(0, box["y"] - 12), "width": min(picture.width, box["width"] + 24),
            "height": min(picture.most, box["height"] + 24), "scale": 1}  # fmt: skip
    answer = browser("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)  # type: ignore[operator]
    (HERE / f"{picture.name}.png").write_bytes(base64.b64decode(answer["data"]))


if __name__ == "__main__":
    sys.exit(main())
