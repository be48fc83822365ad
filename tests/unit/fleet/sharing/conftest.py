"""Results at a URL: a bucket of a server that speaks S3's protocol, and a folder as a URL. Machines are told apart by
their caches."""

from __future__ import annotations

import pytest

from replay.fleet.sharing import mirror
from replay.fleet.sharing.mirror import Mirror


@pytest.fixture(params=["s3", "file"])
def url(request, tmp_path, monkeypatch):
    pytest.importorskip("fsspec")
    monkeypatch.setattr(Mirror, "pause_s", 0.001)
    monkeypatch.setattr(mirror, "_LOOKS_EVERY_S", 0.0)
    monkeypatch.setattr(mirror, "_LOOKS_TIMES", 0.0)
    if request.param == "s3":
        return request.getfixturevalue("bucket") + "/results"
    return f"file://{tmp_path}/shared/results"


@pytest.fixture
def machine(tmp_path, monkeypatch, url):
    """Opens the URL as the machine of a name does."""

    def place(name):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return Mirror(url)

    return place
