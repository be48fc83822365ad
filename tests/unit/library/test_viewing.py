"""`replay view`: who may read which page, and that nothing else can be had from its server."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path

import pytest

from replay.errors import FileError
from replay.history.store import History
from replay.library.viewing import entries as found_entries
from replay.library.viewing.opening import opened
from replay.library.viewing.server import Viewer
from replay.results.store import write_result

from ..helpers.snapshot_factory import vector_add
from ..report.test_report import timed


@pytest.fixture
def folder(tmp_path) -> Path:
    root = tmp_path / "pages"
    (root / "history").mkdir(parents=True)
    vector_add(64).write(root / "a.rsnap")
    write_result(root / "history" / "r.rres", timed(2000, "vector_add"))
    (root / "notes.txt").write_text("not a page")
    (tmp_path / "secret.rsnap").write_bytes((root / "a.rsnap").read_bytes())
    return root


@contextlib.contextmanager
def serving(*paths: Path):
    with Viewer(paths) as viewer:
        thread = threading.Thread(target=viewer.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield viewer
        finally:
            viewer.shutdown()
            thread.join(60)


def ask(viewer: Viewer, path: str, method: str = "GET", host: str | None = None):
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=60)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{viewer.port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_a_list_of_everything_and_a_page_of_each(folder):
    with serving(folder) as viewer:
        answer, text = ask(viewer, f"/{viewer.token}/")
        assert answer.status == 200
        assert "1 history, 1 result, 1 snapshot" in text
        links = {name: at for at, name in enumerate(("a.rsnap", "history", "history/r.rres"))}
        assert "<h1>1 launch of vector_add</h1>" in ask(viewer, f"/{viewer.token}/page/{links['a.rsnap']}")[1]
        assert "History of 1 series" in ask(viewer, f"/{viewer.token}/page/{links['history']}")[1]
        assert "vector_add" in ask(viewer, f"/{viewer.token}/page/{links['history/r.rres']}")[1]


def test_the_files_of_a_folder_are_in_one_list(folder):
    (folder / "z.rsnap").write_bytes((folder / "a.rsnap").read_bytes())  # after the folder, by name
    with serving(folder) as viewer:
        text = ask(viewer, f"/{viewer.token}/")[1]
        assert text.count("<table") == 2
        found = dict(reversed(pair) for pair in re.findall(r'<a href="(page/\d+)">([^<]*)</a>', text))
        assert list(found) == ["a.rsnap", "history", "z.rsnap", "r.rres"]
        assert "z.rsnap" in ask(viewer, f"/{viewer.token}/{found['z.rsnap']}")[1]


def test_only_documents_that_have_a_page_are_listed(folder, monkeypatch):
    (folder / "c.json").write_text('{\n  "schema": "replay.comparison/1",\n  "rows": []}')
    (folder / "n.json").write_text('{"schema":"replay.run.windows/1"}')
    (folder / "plan.json").write_text('{"format": "replay.fleet.plan/1", "schema": "replay.fleet.plan/1"}')
    (folder / "other.json").write_text('{"schema": 3}')
    (folder / "late.json").write_text(" " * 5000 + '{"schema": "replay.comparison/1"}')
    os.mkfifo(folder / "pipe.json")
    found, _ = found_entries.find_entries([folder])
    assert [(item.name, item.kind) for item in found] == [
        ("a.rsnap", "snapshot"), ("c.json", "comparison"), ("history", "history"), ("history/r.rres", "result"),
        ("n.json", "result"),
    ]  # fmt: skip
    assert [item.kind for item in found_entries.find_entries([folder / "other.json"])[0]] == ["document"]
    monkeypatch.setattr(found_entries, "MAXIMUM_DOCUMENTS", 1)
    assert [item.name for item in found_entries.find_entries([folder])[0]] == [
        "a.rsnap", "c.json", "history", "history/r.rres",
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/page/0", "/{half}/", "/{token}x/", "/%2e%2e/", "/x/{token}/"])
def test_without_the_token_nothing_is_shown(folder, path):
    with serving(folder) as viewer:
        asked = path.format(token=viewer.token, half=viewer.token[:16])
        answer, text = ask(viewer, asked)
        assert answer.status == 403
        assert "rsnap" not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
def test_another_name_for_the_server_is_refused(folder, host):
    with serving(folder) as viewer:
        answer, text = ask(viewer, f"/{viewer.token}/", host=host.format(port=viewer.port))
        assert answer.status == 421
        assert "rsnap" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "ODD"])
def test_only_reading_is_answered(folder, method):
    with serving(folder) as viewer:
        answer, text = ask(viewer, f"/{viewer.token}/", method)
        assert answer.status == 405
        assert text == "Only GET is answered.\n"


@pytest.mark.parametrize(
    "path",
    ["../secret.rsnap", "page/../../secret.rsnap", "page/..%2fsecret.rsnap", "page//etc/passwd", "page/-1", "page/9",
     "page/0/", "page/00000000001", "page/%C2%B2", "a.rsnap", "page/a.rsnap", "page/1e0"],
)  # fmt: skip
def test_no_path_leads_anywhere(folder, path):
    with serving(folder) as viewer:
        answer, text = ask(viewer, f"/{viewer.token}/" + path)
        assert answer.status == 404
        assert "no such page" in text


def test_a_link_that_leads_out_of_the_folder_is_not_listed_nor_followed(folder, monkeypatch):
    (folder / "link.rsnap").symlink_to(folder.parent / "secret.rsnap")
    (folder / "loop").symlink_to(folder)
    found, _ = found_entries.find_entries([folder])
    assert [item.name for item in found] == ["a.rsnap", "history", "history/r.rres"]
    (folder / "a.rsnap").unlink()
    (folder / "a.rsnap").symlink_to(folder.parent / "secret.rsnap")  # after it was listed
    with pytest.raises(FileError, match="leads out"):
        found_entries.page_of(found[0])


def test_headers_keep_other_pages_out_and_the_policy_is_that_of_the_page(folder):
    with serving(folder) as viewer:
        answer, text = ask(viewer, f"/{viewer.token}/page/0")
        assert answer.getheader("Referrer-Policy") == "no-referrer"
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Cache-Control") == "no-store"
        assert "frame-ancestors 'none'" in (answer.getheader("Content-Security-Policy") or "")
        assert "Content-Security-Policy" in text
        head, nothing = ask(viewer, f"/{viewer.token}/page/0", "HEAD")
        assert (head.status, nothing) == (200, "")


def test_it_listens_on_the_loopback_interface_alone(folder):
    with Viewer([folder]) as viewer:
        assert viewer.server_address[0] == "127.0.0.1"


def test_a_file_that_is_none_is_said_on_a_page(folder):
    (folder / "broken.rsnap").write_bytes(b"nothing")
    with serving(folder) as viewer:
        _, text = ask(viewer, f"/{viewer.token}/page/1")
        assert "No page" in text
        assert "broken.rsnap" in text


def test_slow_clients_do_not_keep_others_out(folder):
    with serving(folder) as viewer:
        idle = [socket.create_connection(("127.0.0.1", viewer.port)) for _ in range(8)]
        try:
            assert ask(viewer, f"/{viewer.token}/")[0].status == 200
        finally:
            for connection in idle:
                connection.close()


def test_the_address_is_in_no_command_line_and_its_file_is_gone_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: shown.append(address) or True)
    with opened("http://127.0.0.1:1/secret/") as there:
        assert there
        (file,) = (tmp_path / "replay").iterdir()
        assert shown == [file.as_uri()]
        assert "secret" not in file.name
        assert file.stat().st_mode & 0o777 == 0o600
        assert "http://127.0.0.1:1/secret/" in file.read_text()
    assert list((tmp_path / "replay").iterdir()) == []


def test_nothing_at_a_path_and_a_port_that_is_taken_are_said(tmp_path, folder):
    with pytest.raises(FileError, match="no such file"):
        Viewer([tmp_path / "nowhere"])
    with Viewer([folder]) as viewer, socket.socket() as taken:
        del viewer
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FileError, match="cannot be listened at"):
            Viewer([folder], taken.getsockname()[1])


def test_the_command_prints_the_address_and_ends_with_ctrl_c(folder):
    command = [sys.executable, "-m", "replay", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "http://127.0.0.1:" in line
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_a_history_whose_results_are_packed_is_shown(folder):
    with History(folder / "history") as history:
        history.update()
        assert history.pack() == (1, 1)
    found, _ = found_entries.find_entries([folder])
    assert [(entry.name, entry.kind) for entry in found if entry.kind == "history"] == [
        ("history", "history")
    ]
