"""The service that reads images for the interposer: it answers what is right, and nothing that is asked wrongly."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

import pytest

from replay.api.vocabulary import VARIABLES_SOCKET, Storage
from replay.capture.variables import VariableService

PTX = b""".version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 second;
.const .align 4 .b8 first[16];
.global .align 1 .b8 $str[4] = {37, 100, 10, 0};
.visible .entry nothing() { ret; }
"""


@pytest.fixture
def raw(tmp_path):
    with VariableService(tmp_path):
        yield tmp_path


def question(storage, data, offset=0, length=0, check=0, magic=b"RCAPVARS", version=1, data_bytes=None):
    size = len(data) if data_bytes is None else data_bytes
    return struct.pack("<8sIIIIQQI4x", magic, version, storage, 80, size, offset, length, check) + data


def ask(raw, message, finish=False):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        folder = os.open(raw, os.O_PATH)
        connection.connect(f"/proc/self/fd/{folder}/{VARIABLES_SOCKET}")
        os.close(folder)
        connection.sendall(message)
        if finish:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # closed before all was read
            while piece := connection.recv(65536):
                answer += piece
        return answer


NAMES = struct.pack("<II", 0, 13) + b"first\0second\0"
GONE, NOTHING = struct.pack("<II", 1, 0), struct.pack("<II", 2, 0)


def test_names_from_wherever_the_image_is(raw):
    assert ask(raw, question(Storage.INLINE, PTX, length=len(PTX))) == NAMES
    (raw / "blobs.7.bin").write_bytes(b"x" * 64 + PTX)
    assert ask(raw, question(Storage.BLOB, b"blobs.7.bin", 64, len(PTX))) == NAMES


def test_what_is_no_image_of_this_capture_is_not_read(raw, tmp_path):
    (raw / "secret").write_bytes(PTX)
    (raw.parent / "blobs.outside.bin").write_bytes(PTX)
    for name in (b"secret", b"../blobs.outside.bin", b"/etc/passwd", b"blobs.none.bin", b"", b"blobs.\0"):
        assert ask(raw, question(Storage.BLOB, name, 0, len(PTX))) == GONE
    assert ask(raw, question(Storage.FILE, b"too short", 0, 1 << 20)) == GONE
    assert ask(raw, question(Storage.BLOB, b"blobs.none.bin", 0, 1 << 40)) == GONE
    assert ask(raw, question(9, PTX, 0, len(PTX))) == GONE
    assert ask(raw, question(Storage.INLINE, b"no image at all", length=15)) == NOTHING


def test_wrong_questions_get_no_answer_and_the_next_one_gets_its_own(raw):
    assert ask(raw, question(Storage.INLINE, PTX, magic=b"RCAPCALL")) == b""
    assert ask(raw, question(Storage.INLINE, PTX, version=2)) == b""
    assert ask(raw, question(Storage.INLINE, b"", data_bytes=1 << 31)) == b""
    assert ask(raw, question(Storage.INLINE, PTX)[:20], finish=True) == b""
    assert ask(raw, question(Storage.INLINE, PTX, length=len(PTX))) == NAMES


def test_folder_where_no_socket_can_be_made_is_no_hindrance(tmp_path):
    (tmp_path / VARIABLES_SOCKET).write_text("in the way")
    with VariableService(tmp_path):
        pass
    assert (tmp_path / VARIABLES_SOCKET).read_text() == "in the way"
