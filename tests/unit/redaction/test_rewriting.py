"""Objects of a snapshot as they are written anew."""

from __future__ import annotations

from pathlib import Path

from replay.pack.texts import Texts
from replay.redaction.names import Names
from replay.redaction.rewriting import Images, Level, _Rewriter
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.container.objects import BLOCK_KIND

from ..helpers.small_snapshots import increment


def test_a_block_of_launches_keeps_what_is_known_of_it_and_no_name(tmp_path: Path) -> None:
    """Its templates are not read as calls, since the words that vary have their places in them."""
    path = increment().write(tmp_path / "x.rsnap")
    template = {
        "function": "cuLaunchKernel",
        "arguments": (1, 2),
        "kernels": {"planted": 1},
        "mine": "planted",
    }
    block = {"order": b"\0\0", "templates": (template,), "others": (), "numbers": b"", "mine": "planted"}
    with SnapshotReader(path) as reader, SnapshotWriter(tmp_path / "y.rsnap") as writer:
        rewriter = _Rewriter(Level(reader, writer), Texts(keep=False), Images(Names({"planted": "kernel_1"})))
        ((kind, written),) = rewriter.objects(BLOCK_KIND, block)
    assert kind == BLOCK_KIND
    assert "planted" not in str(written)
    assert written["templates"][0]["kernels"] == {"kernel_1": 1}
    assert written["templates"][0]["arguments"] == (1, 2)
    assert (written["order"], written["numbers"]) == (b"\0\0", b"")
