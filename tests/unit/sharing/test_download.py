"""A snapshot from the network: only by https, only with its digest, within limits."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replay import download

from ..helpers.command import run
from ..helpers.saxpy_snapshot import write_snapshot

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """Of https, on 127.0.0.1, which its certificate calls localhost, too. pages: what is answered, by path."""

    def __init__(self, certificate: Path) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                self.asked.append(handler.path)
                self.pages[handler.path](handler)

            def log_message(handler, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A client that has gone is what some tests are about.
        self._server.handle_error = lambda *arguments: None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str, data: bytes, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}{path}#sha256={hashlib.sha256(data).hexdigest()}"

    def serves(self, path: str, data: bytes, told: int | None = None, status: int = 200) -> None:
        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            if told != -1:
                handler.send_header("Content-Length", str(len(data) if told is None else told))
            handler.end_headers()
            handler.wfile.write(data)

        self.pages[path] = answer

    def leads(self, path: str, to: str) -> None:
        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", to)
            handler.end_headers()

        self.pages[path] = answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, which makes a certificate")
    path = tmp_path_factory.mktemp("certificate") / "both.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += [
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
    ]
    subprocess.run(
        [*command, "-keyout", str(path), "-out", str(path) + ".crt"], check=True, capture_output=True
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.crt").read_bytes())
    return path


@pytest.fixture
def server(certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}.crt")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    started = Server(certificate)
    yield started
    started.close()


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    return write_snapshot(tmp_path / "saxpy.rsnap").read_bytes()


def cached(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def refused(capsys: pytest.CaptureFixture[str], url: str, status: int = 3) -> str:
    assert run("info", url, "--json") == status
    return str(json.loads(capsys.readouterr().out))


def test_a_snapshot_is_downloaded_once_and_read(
    server: Server, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.serves("/a%20b/x.rsnap?token=1", data)
    url = server.url("/a%20b/x.rsnap?token=1", data)
    assert run("info", url, "--json") == 0
    assert json.loads(capsys.readouterr().out)["summary"]["launches"] == 1
    assert run("verify", url) == 0
    assert server.asked == ["/a%20b/x.rsnap?token=1"]
    (kept,) = cached(tmp_path)
    assert kept.name == "x.rsnap"
    assert kept.stat().st_mode & 0o077 == 0


def test_what_was_changed_in_the_cache_is_downloaded_again(
    server: Server, data: bytes, tmp_path: Path
) -> None:
    server.serves("/x.rsnap", data)
    url = server.url("/x.rsnap", data)
    assert run("verify", "-q", url) == 0
    (kept,) = cached(tmp_path)
    kept.write_bytes(b"other")
    assert run("verify", "-q", url) == 0
    assert kept.read_bytes() == data


def test_what_nobody_used_for_long_is_removed(server: Server, data: bytes, tmp_path: Path) -> None:
    server.serves("/x.rsnap", data)
    server.serves("/y.rsnap", b"other")
    assert run("verify", "-q", server.url("/x.rsnap", data)) == 0
    (old,) = cached(tmp_path)
    os.utime(old.parent, (0, time.time() - download.KEPT_S - 60))
    assert run("verify", "-q", server.url("/y.rsnap", b"other")) == 3
    assert [path.name for path in cached(tmp_path)] == ["y.rsnap"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://localhost/x.rsnap", "needs the digest"),
        ("https://localhost/x.rsnap#sha256=12", "needs the digest"),
        ("http://localhost/x.rsnap#sha256=" + 64 * "0", "not https"),
        ("ftp://localhost/x.rsnap#sha256=" + 64 * "0", "not https"),
        ("https://me:word@localhost/x.rsnap#sha256=" + 64 * "0", "user or password"),
        ("https://localhost:x/x.rsnap#sha256=" + 64 * "0", "no address"),
    ],
)
def test_an_address_without_digest_or_safety_is_refused(
    capsys: pytest.CaptureFixture[str], url: str, words: str
) -> None:
    said = refused(capsys, url, status=2)
    assert words in said
    assert "word@" not in said


def test_another_file_is_not_kept_and_not_read(
    server: Server, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.serves("/x.rsnap", data[:-1] + b"\0")
    assert "another file" in refused(capsys, server.url("/x.rsnap", data))
    assert cached(tmp_path) == []


@pytest.mark.parametrize("told", [None, -1])
def test_a_file_that_is_too_large_ends_early(
    server: Server, data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], told: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(download, "MAXIMUM_BYTES", len(data) - 1)
    server.serves("/x.rsnap", data, told)
    assert "is larger than" in refused(capsys, server.url("/x.rsnap", data))
    assert cached(tmp_path) == []


def test_what_takes_too_long_or_is_silent_ends(
    server: Server,
    data: bytes,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.serves("/x.rsnap", data)
    monkeypatch.setattr(download, "MAXIMUM_S", 0.0)
    assert "took longer" in refused(capsys, server.url("/x.rsnap", data))
    monkeypatch.setattr(download, "SILENT_S", 0.2)
    ended = threading.Event()
    server.pages["/silent"] = lambda handler: ended.wait(60) and None
    try:
        assert "nothing came" in refused(capsys, server.url("/silent", data))
    finally:
        ended.set()
    assert cached(tmp_path) == []


def test_a_file_that_ends_early_is_told(
    server: Server, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    server.serves("/x.rsnap", data[:100], len(data))
    assert "ended after 100 B of" in refused(capsys, server.url("/x.rsnap", data))


def test_a_status_is_told(server: Server, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    server.serves("/x.rsnap", b"", status=404)
    assert "answers 404 (Not Found)" in refused(capsys, server.url("/x.rsnap", data))


def test_a_certificate_that_nobody_trusts_ends_it(
    server: Server, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    server.serves("/x.rsnap", data)
    assert "certificate is not trusted" in refused(capsys, server.url("/x.rsnap", data))
    assert server.asked == []


def test_a_redirect_on_the_same_server_is_followed(server: Server, data: bytes) -> None:
    server.leads("/x.rsnap", "/there.rsnap")
    server.serves("/there.rsnap", data)
    assert run("verify", "-q", server.url("/x.rsnap", data)) == 0


def test_a_redirect_to_another_place_inside_is_not_followed(
    server: Server, data: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.leads("/x.rsnap", f"https://localhost:{server.port}/there.rsnap")
    server.serves("/there.rsnap", data)
    assert "inside a private network" in refused(capsys, server.url("/x.rsnap", data))
    # A name that is public when it is looked up, and private when it is connected to
    monkeypatch.setattr(download.socket, "getaddrinfo", _public_at_first(download.socket.getaddrinfo))
    assert "inside a private network" in refused(capsys, server.url("/x.rsnap", data))
    assert "/there.rsnap" not in server.asked


@pytest.mark.parametrize("place", ["10.255.255.1", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_redirect_into_a_private_network_is_known_before_anybody_is_asked(
    server: Server,
    data: bytes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    monkeypatch.setattr(download._Connection, "connect", _only_to(server.port))
    server.leads("/x.rsnap", f"https://{place}/x.rsnap")
    assert "inside a private network" in refused(capsys, server.url("/x.rsnap", data))


def _only_to(port: int) -> Callable[[download._Connection], None]:
    real = download._Connection.connect

    def connect(self: download._Connection) -> None:
        assert self.port == port, "it was asked"
        real(self)

    return connect


def _public_at_first(real: Callable[..., list]) -> Callable[..., list]:
    def look_up(host: str, port: object, *more: object, **named: object) -> list:
        if port is None:
            return [(2, 1, 6, "", ("1.1.1.1", 0))]
        return real(host, port, *more, **named)

    return look_up


@pytest.mark.parametrize(
    "to", ["http://localhost/x.rsnap", "file:///etc/passwd", "ftp://localhost/x", "/x.rsnap"]
)
def test_a_redirect_away_from_https_or_without_end_is_not_followed(
    server: Server, data: bytes, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    server.leads("/x.rsnap", to)
    assert "leads" in refused(capsys, server.url("/x.rsnap", data))
    assert len(server.asked) <= download.MAXIMUM_REDIRECTS + 1
