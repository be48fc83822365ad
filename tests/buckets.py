"""Fixtures: a server that speaks S3's protocol (moto's), and buckets of it."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of moto's server of S3, in a process of its own."""
    pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], stderr=file, stdout=file
        )
    try:
        while not (match := re.search(r"http://127\.0\.0\.1:\d+", log.read_text())):
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield match[0]
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new, empty bucket, and what s3fs needs to find it."""
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}/models"
