"""Every row of the table: the capture says what was called, and the application got what the driver gave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from replay.api import functions
from replay.api.graphs import WAITING
from replay.api.vocabulary import Keep
from replay.raw.decode import Decoder
from replay.raw.events import Entered
from replay.raw.records import RawFile

from ..conftest import HERE, Runner

SCRIPT = HERE / "programs" / "call_rows.py"


def plain(words: dict[tuple[int, int], bytes]) -> dict[str, str]:
    return {f"{parameter},{part}": data.hex() for (parameter, part), data in words.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("which", ["always", "window"])
def test_each_row_of_the_table_is_recorded_as_it_was_called(
    run: Runner, tmp_path: Path, which: str, seed: int
) -> None:
    output = tmp_path / "expected.json"
    selection = {"kernel": "^never launched$"} if which == "always" else {"all": 1}
    done, capture = run([sys.executable, SCRIPT, which, seed, output], **selection)
    assert done.returncode == 0
    expected = json.loads(output.read_text())
    keep = Keep.ALWAYS if which == "always" else Keep.WINDOW
    symbols = {s for f in functions.listed_functions() if f.keep == keep for s in (f.symbol, f.twin) if s}
    assert {row["symbol"] for row in expected} == symbols
    calls = iter(capture.only.calls)
    if which == "always":  # no window comes
        assert not WAITING & set(capture.only.symbols())
        expected = [row for row in expected if row["symbol"] not in WAITING]
    for row in expected:
        # Others are between them: cuInit, and the look-ups of kernels to launch.
        def known(arguments: list[int], row: dict[str, Any] = row) -> list[int]:
            return [word for place, word in enumerate(arguments) if place not in row["unknown"]]

        call = next(
            call
            for call in calls
            if (call.symbol, known(list(call.arguments))) == (row["symbol"], known(row["arguments"]))
        )
        assert call.result == row["result"], row["symbol"]
        assert plain(call.entered) == row["entered"], row["symbol"]
        left = plain(call.left)
        if row["variable"] and call.result == 0:
            # Address and size, whether or not the application asked for both.
            variable = left.pop("3,1")
            assert len(variable) == 32
            if row["symbol"] != "cuModuleGetGlobal" or {"0,0", "1,0"} <= left.keys():
                assert variable[:16].startswith(left.get("0,0", ""))
                assert variable[16:].startswith(left.get("1,0", ""))
        if row["imported"]:  # address and size, as the driver gave them
            assert len(left.pop("0,1")) == 32
        assert left == row["left"], row["symbol"]
    assert capture.complete
    assert capture.only.end == 0


def test_the_packers_reader_and_the_format_agree(run: Runner, tmp_path: Path) -> None:
    """records.py follows the text of replay/raw/FORMAT.md; replay.raw reads for the packer."""
    done, capture = run([sys.executable, SCRIPT, "window", 9, tmp_path / "expected.json"], all=1)
    assert done.returncode == 0
    with RawFile(capture.only.path) as raw:
        decoder = Decoder(raw)
        calls = [event.call for event in decoder.events() if isinstance(event, Entered)]
    assert decoder.ending.state == "complete"
    assert [(call.number, call.arguments, call.result) for call in calls] == [
        (call.number, call.arguments, call.result) for call in capture.only.calls
    ]
    assert [sum(item.length for item in call.inputs.values()) for call in calls] == [
        sum(map(len, call.entered.values())) for call in capture.only.calls
    ]
    assert [
        call.function.twin if call.per_thread else call.function.symbol for call in calls
    ] == capture.only.symbols()


def test_arguments_and_results_reach_driver_and_application_unchanged(run: Runner, tmp_path: Path) -> None:
    """The fake driver's log of a run without the shim and of one with it: the application's own calls are the same."""
    logs = {}
    for preload in (False, True):
        run.environment = {"FAKE_LOG": str(tmp_path / f"log-{preload}")}
        output = tmp_path / f"{preload}.json"
        done, _ = run(["setarch", "-R", sys.executable, SCRIPT, "window", 5, output], preload=preload, all=1)
        if done.returncode != 0 and "setarch" in done.stderr:
            pytest.skip("needs setarch -R, which this container does not permit")
        assert done.returncode == 0
        logs[preload] = [
            {key: value for key, value in row.items() if key in ("symbol", "result", "left")}
            for row in json.loads(output.read_text())
        ]
        names = [line.split()[0] for line in (tmp_path / f"log-{preload}").read_text().splitlines()]
        logs[f"names {preload}"] = [
            name for name in names if name in {row["symbol"] for row in logs[preload]}
        ]
    assert logs[True] == logs[False]
    # Also called by the shim: before it reads memory, and around the launches that it times.
    ours = {
        "cuStreamQuery", "cuCtxSynchronize", "cuMemcpyDtoH_v2", "cuThreadExchangeStreamCaptureMode", "cuEventCreate",
        "cuEventRecord", "cuEventRecord_ptsz", "cuEventQuery", "cuEventElapsedTime", "cuEventDestroy_v2",
    }  # fmt: skip
    assert [n for n in logs["names True"] if n not in ours] == [
        n for n in logs["names False"] if n not in ours
    ]
