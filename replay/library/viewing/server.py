"""Serves the pages of a folder on the loopback interface: to who has the token, to be read and nothing else.

No part of an address is ever the name of a file: pages are asked for by their number in the list. The Host header must
be the one of this server, so that no other name that leads here (DNS rebinding) can be used by a page elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
import socketserver
import threading
from collections import OrderedDict
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

from replay.errors import FileError, ReplayError
from replay.library.viewing.entries import Entry, find_entries, page_of

if TYPE_CHECKING:
    from typing_extensions import Self

LOOPBACK = "127.0.0.1"
MAXIMUM_CLIENTS = 16
CLIENT_TIMEOUT_S = 30.0
KEPT_PAGES = 16
MAXIMUM_KEPT_BYTES = 64 << 20
# Beside the policy that each page has for itself
_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_Key = tuple[str, int, int]


class Viewer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Pages of what is below `paths`, at `address`. A context manager; `serve_forever` returns after `shutdown`.

    port: 0 for one that is free. Raises FileError when nothing is at a path, or the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, paths: Sequence[Path], port: int = 0) -> None:
        self.paths = [path.absolute() for path in paths]
        find_entries(self.paths)  # refuses what is not there
        self.token = secrets.token_urlsafe(24)
        self._pages: OrderedDict[_Key, bytes] = OrderedDict()
        self._making = threading.Lock()  # one page at a time: each may take a processor for seconds
        self._clients = threading.BoundedSemaphore(MAXIMUM_CLIENTS)
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise FileError(f"cannot be listened at ({error.strerror})", where=f"{LOOPBACK}:{port}",
                            next="leave --port out to have a free one") from None  # fmt: skip
        self.port = int(self.server_address[1])
        self.hosts = {f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"}

    def __enter__(self) -> Self:
        return self

    @property
    def address(self) -> str:
        """Where the list is. Who knows it may read every page."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def process_request(self, request: object, client_address: object) -> None:
        """Refuse more clients than there is room for."""
        if self._clients.acquire(blocking=False):
            super().process_request(request, client_address)  # type: ignore[arg-type]
        else:
            self.shutdown_request(request)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Make room again when a client is served."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self._clients.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that is gone is no news."""

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and page of the part of an address behind the token."""
        from replay.report.html.listing import render_failure, render_listing

        entries, more = find_entries(self.paths)
        if path == "":
            return 200, render_listing(entries, more).encode("utf-8", "backslashreplace")
        number = path.removeprefix("page/")
        if number == path or not number.isascii() or not number.isdecimal() or len(number) > 6:
            return 404, render_failure("There is no such page.").encode()
        if int(number) >= len(entries):
            return 404, render_failure("There is no such page any more.").encode()
        try:
            return 200, self._page(entries[int(number)])
        except ReplayError as error:
            return 200, render_failure(str(error), entries[int(number)].name).encode(
                "utf-8", "backslashreplace"
            )

    def _page(self, entry: Entry) -> bytes:
        status = entry.path.stat()
        key = (str(entry.path), status.st_mtime_ns, status.st_size)
        with self._making:
            if key not in self._pages or entry.kind == "history":
                self._pages[key] = page_of(entry).encode("utf-8", "backslashreplace")
            self._pages.move_to_end(key)
            page = self._pages[key]
            while len(self._pages) > KEPT_PAGES or sum(map(len, self._pages.values())) > MAXIMUM_KEPT_BYTES:
                self._pages.popitem(last=False)
        return page


class _Handler(BaseHTTPRequestHandler):
    server: Viewer
    server_version, sys_version = "replay", ""
    timeout = CLIENT_TIMEOUT_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A page."""
        self._answer(True)

    def do_HEAD(self) -> None:
        """The head of a page."""
        self._answer(False)

    def _answer(self, with_page: bool) -> None:
        hosts = self.headers.get_all("Host") or []
        token, _, path = self.path.removeprefix("/").partition("?")[0].partition("/")
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            status, page = 421, b"This server is asked by another name.\n"
        elif not hmac.compare_digest(token.encode("latin-1", "replace"), self.server.token.encode()):
            status, page = 403, b"The address needs the token that `replay view` printed.\n"
        else:
            try:
                status, page = self.server.answer(path)
            except (ReplayError, OSError) as error:
                status, page = 500, f"{error}\n".encode("utf-8", "backslashreplace")
        is_page = page.startswith(b"<!doctype html>")
        self.send_response(status)
        self.send_header("Content-Type", f"text/{'html' if is_page else 'plain'}; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        if with_page:
            self.wfile.write(page)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """In plain text: nothing of a request is sent back."""
        refused = 405 if code == 501 else code
        text = b"Only GET is answered.\n" if refused == 405 else b"This request makes no sense.\n"
        self.send_response(refused)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        if refused == 405:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: a request is from a stranger until its token is known."""
