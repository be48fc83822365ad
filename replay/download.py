"""A file from the network: only of `https`, only with the digest that it must have, and within limits.

Nothing of it is read before the digest matches. It is kept in the user's cache under its digest, checked again whenever
it is used, and removed when nobody has used it for a month.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import shutil
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from replay import interrupts
from replay.beside import open_beside
from replay.errors import DamagedError, FileError, LimitError, ReplayError, UsageError
from replay.privacy import private
from replay.text import size

MAXIMUM_BYTES = 8 << 30
MAXIMUM_S = 3600.0
SILENT_S = 30.0  # without a byte
MAXIMUM_REDIRECTS = 5
KEPT_S = 30 * 86400.0
_PIECE_BYTES = 1 << 18
_BY_HAND = "download it by hand, and check it with sha256sum"


def downloaded(url: str, progress: Callable[[str], None] = lambda text: None) -> Path:
    """The file of `https://HOST/NAME#sha256=HEX`, in the cache. Raises UsageError, FileError, LimitError, and
    DamagedError when it is another file than the digest says."""
    address, _, fragment = url.partition("#")
    where = private(address)
    parts = _https(address, where)
    match = re.fullmatch(r"sha256=([0-9a-f]{64})", fragment.lower())
    if match is None:
        raise UsageError(
            "a download needs the digest of the file", where=where,
            next="add #sha256=HEX to the address. HEX is in the SHA256SUMS that `replay attach` wrote; who has the "
            "file gets it with `sha256sum FILE`",
        )  # fmt: skip
    name = re.sub(r"[^\w.-]", "_", unquote(parts.path.rpartition("/")[2])).lstrip(".")[:100]
    folder = cache_folder()
    target = folder / match[1] / (name or "snapshot.rsnap")
    try:
        _forget(folder)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(target.parent)
        if target.is_file() and digest_of(target) == match[1]:
            return target
        _fetch(address, where, target, match[1], progress)
    except OSError as error:
        raise FileError.of(
            error, target, "free some space, or set XDG_CACHE_HOME to another folder"
        ) from None
    return target


def cache_folder() -> Path:
    """Where files are kept, each in a folder with the name of its digest. Raises FileError."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        cache = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:
        raise FileError(
            "there is no home folder to keep it in", next="set XDG_CACHE_HOME to a folder"
        ) from None
    return cache / "replay" / "downloads"


def _https(address: str, where: str) -> Any:
    """Its parts. Raises UsageError."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"is no address ({error})", where=where) from None
    if parts.scheme.lower() != "https":
        raise UsageError(
            "is not https, so anybody on the way could change it",
            where=where,
            next="use https, or " + _BY_HAND,
        )
    if not parts.hostname or parts.username is not None or parts.password is not None:
        raise UsageError("holds no host, or a user or password", where=where, next=_BY_HAND)
    return parts


def _forget(folder: Path) -> None:
    """Remove what has not been used for long."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > KEPT_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _fetch(address: str, where: str, target: Path, expected: str, progress: Callable[[str], None]) -> None:
    begin_s = time.monotonic()
    opener = build_opener(_Https(context=ssl.create_default_context()), _Redirects())
    request = Request(address, headers={"Accept-Encoding": "identity", "User-Agent": "replay"})
    try:
        with opener.open(request, timeout=SILENT_S) as answer:
            told = answer.headers.get("Content-Length", "")
            total = int(told) if re.fullmatch(r"[0-9]{1,18}", told) else 0
            if total > MAXIMUM_BYTES:
                raise _too_large(where)
            with interrupts.held():
                descriptor, temporary = open_beside(target)
            try:
                digest, count = hashlib.sha256(), 0
                with os.fdopen(descriptor, "wb") as file:
                    while piece := answer.read1(_PIECE_BYTES):
                        file.write(piece)
                        digest.update(piece)
                        count += len(piece)
                        progress(f"downloading {size(count)}{f' of {size(total)}' if total else ''}")
                        if count > MAXIMUM_BYTES:
                            raise _too_large(where)
                        if time.monotonic() - begin_s > MAXIMUM_S:
                            raise LimitError(
                                f"took longer than {MAXIMUM_S / 60:.0f} minutes", where=where, next=_BY_HAND
                            )
                if count < total:
                    raise FileError(
                        f"ended after {size(count)} of {size(total)}", where=where, next="try again"
                    )
                if digest.hexdigest() != expected:
                    raise DamagedError(f"is another file than you asked for: its SHA-256 is {digest.hexdigest()}",
                                       where=where, next="ask who gave you the digest")  # fmt: skip
                os.replace(temporary, target)
            finally:
                with interrupts.held():
                    temporary.unlink(missing_ok=True)
    except HTTPError as error:
        if error.code // 100 == 3:
            raise FileError("the server leads elsewhere too often, or to no address of https", where=where,
                            next=_BY_HAND) from None  # fmt: skip
        said = f" ({HTTPStatus(error.code).phrase})" if error.code in {*HTTPStatus} else ""
        raise FileError(
            f"the server answers {error.code}{said}", where=where, next="check the address"
        ) from None
    except URLError as error:
        raise _unreachable(error.reason, where) from None
    except (HTTPException, ssl.SSLError, TimeoutError, ConnectionError) as error:
        raise _unreachable(error, where) from None


def _too_large(where: str) -> ReplayError:
    return LimitError(f"is larger than {size(MAXIMUM_BYTES)}", where=where, next=_BY_HAND)


def _unreachable(reason: object, where: str) -> ReplayError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return FileError(f"its certificate is not trusted ({reason.verify_message})", where=where,
                         next="set SSL_CERT_FILE to the certificate of its authority, if you trust that")  # fmt: skip
    if isinstance(reason, TimeoutError):
        return FileError(f"nothing came for {SILENT_S:.0f} seconds", where=where, next="try again")
    what = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return FileError(f"cannot be downloaded: {what}", where=where, next="check the address and the network")


class _Redirects(HTTPRedirectHandler):
    """To other places of https only, none of which is inside a private network unless it is the one that was named."""

    max_redirections = MAXIMUM_REDIRECTS

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        where = private(newurl.partition("#")[0])
        try:
            new = _https(newurl, where)
        except UsageError as error:
            raise FileError(f"the server leads to {error.where}, which is not followed", where=private(req.full_url),
                            next=_BY_HAND) from None  # fmt: skip
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        first = urlsplit(getattr(req, "named", req.full_url))
        if made is not None:
            made.named = first.geturl()  # type: ignore[attr-defined]
            made.is_public = (new.hostname, new.port) != (first.hostname, first.port)  # type: ignore[attr-defined]
            with suppress(OSError):  # who cannot be found here, a proxy may find; else connecting says so
                for found in socket.getaddrinfo(new.hostname, None) if made.is_public else ():  # type: ignore[attr-defined]
                    _require_public(str(found[4][0]), where)
        return made


def _require_public(address: str, where: str) -> None:
    if not ipaddress.ip_address(address.partition("%")[0]).is_global:
        raise FileError(f"is inside a private network ({address}), and a server outside leads to it", where=where,
                        next=_BY_HAND)  # fmt: skip


class _Https(HTTPSHandler):
    """Connections to who a redirect names are made to public addresses only, whatever the name says meanwhile."""

    def https_open(self, req: Request) -> Any:
        return self.do_open(
            partial(_Connection, is_public=getattr(req, "is_public", False)),
            req,
            context=self._context,  # type: ignore[attr-defined]
        )


class _Connection(HTTPSConnection):
    def __init__(self, *arguments: Any, is_public: bool, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._is_public = is_public

    def connect(self) -> None:
        super().connect()
        if self._is_public and not self._tunnel_host:  # type: ignore[attr-defined]
            _require_public(self.sock.getpeername()[0], self.host)
