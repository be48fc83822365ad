"""Drives a headless Chromium over its debugging pipe: nothing listens on the network, no further library is needed.

Messages are JSON with a NUL after each, on file descriptors 3 (to the browser) and 4 (from it).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
    "--disable-dev-shm-usage",
)  # fmt: skip
TIMEOUT_S = 90


class Chromium:
    """One browser with one page. problems: what the page's console, its errors and its security policy said."""

    def __init__(self, folder: Path) -> None:
        assert BROWSER is not None
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def place() -> None:  # the two ends that the browser expects, whatever their numbers are now
            high = [os.dup(to_read), os.dup(to_write)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [BROWSER, *_OPTIONS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=place, pass_fds=(3, 4, to_read, to_write),
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._from, 1 << 20) if ready else b""
            assert data, "the browser is gone or does not answer"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        value: dict[str, Any] = json.loads(message)
        return value

    def open(
        self, page: Path, width: int = 1400, height: int = 1200, scheme: str = "light", scripts: bool = True,
        place: str = "",
    ) -> None:  # fmt: skip
        """Show a file, and wait until it is drawn. place: what comes behind the # of its address."""
        self.events.clear()
        self("Emulation.setScriptExecutionDisabled", value=not scripts)
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        if place:  # a place in the page that is there already would load nothing
            self._load("about:blank")
        self._load(page.as_uri() + (f"#{place}" if place else ""))
        if scripts:
            self.settle()

    def _load(self, address: str) -> None:
        self.events.clear()
        self("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def settle(self) -> None:
        """Wait for what the page's script does after two more frames."""
        self.run(
            "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 60))"
        )

    def run(self, expression: str) -> Any:
        """The value of an expression in the page, as a debugger evaluates it: no policy of the page holds for it."""
        answer = self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, file: Path) -> Path:
        """The whole page, however long, as a PNG."""
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        answer = self("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(answer["data"]))
        return file

    def press(self, name: str) -> None:
        """One key: "Tab", "ArrowLeft", "+"."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        common = {"key": name, "windowsVirtualKeyCode": codes.get(name, ord(name[0]))}
        self("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self("Input.dispatchKeyEvent", type="keyUp", **common)

    def drag(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Press the mouse at one place and let it go at another."""
        steps = (
            ("mouseMoved", x1, y1),
            ("mousePressed", x1, y1),
            ("mouseMoved", x2, y2),
            ("mouseReleased", x2, y2),
        )
        for kind, x, y in steps:
            buttons = 1 if kind != "mouseReleased" else 0
            self(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=buttons, clickCount=1
            )

    def wheel(self, x: float, y: float, down: float) -> None:
        """Turn the mouse's wheel at a place. down: pixels, upwards where negative."""
        self("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=down)

    def twice(self, x: float, y: float) -> None:
        """A double click."""
        for count in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                self(
                    "Input.dispatchMouseEvent",
                    type=kind,
                    x=x,
                    y=y,
                    button="left",
                    buttons=1,
                    clickCount=count,
                )

    @property
    def problems(self) -> list[str]:
        """What went wrong in the page, dialogues included."""
        found = []
        for event in self.events:
            method, given = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
                found.append(given["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                found.append(f"a dialogue: {given['message']}")
            elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning"):
                found.append(str(given["args"]))
        return found

    @property
    def requests(self) -> list[str]:
        """What the page asked for, by address."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]
