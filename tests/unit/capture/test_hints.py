"""Hints: what PyTorch's allocator says becomes blocks, and nothing happens outside of a capture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from replay import hints, stacks
from replay.hints import torch

SNAPSHOT = [
    {
        "address": 4096,
        "blocks": [
            {"size": 512, "state": "active_allocated"},
            {"size": 1024, "state": "inactive"},
            {"size": 2048, "state": "active_awaiting_free"},
        ],
    },
    {"address": 1 << 30, "blocks": [{"address": (1 << 30) + 64, "size": 64, "state": "active_allocated"}]},
]


class FakeTorch:
    class cuda:
        @staticmethod
        def memory_snapshot():
            return SNAPSHOT


def test_blocks_in_use_are_those_of_the_snapshot(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch)
    assert list(torch.blocks()) == [(4096, 512), (4096 + 1536, 2048), ((1 << 30) + 64, 64)]


def test_without_pytorch_there_are_no_blocks(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert list(torch.blocks()) == []


def test_outside_of_a_capture_hints_do_nothing():
    assert not hints.active()
    hints.block_lives(4096, 512)
    hints.block_ends(4096)
    hints.refresh_with(lambda: [(1, 2)])


def test_a_python_of_the_application_is_hooked_without_this_package(tmp_path):
    """The hook finds the package by its own place, and takes that off the path again."""
    hook = Path(stacks.__file__).parent / "hook"
    script = (
        "import sys; print('replay.hints.torch' in sys.modules, len([p for p in sys.path if 'hook' in p]))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PYTHONPATH": str(hook), "REPLAY_HOOK_TORCH_BLOCKS": "1", "REPLAY_HOOK_NVJITLINK": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.stdout.strip(), done.stderr) == ("True 0", "")
