"""`replay check` on the CPU driver: a corpus that passes, then one kernel that becomes slower."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml


def test_a_kernel_that_becomes_slower_is_an_alert(replay, good_snapshot, monkeypatch):
    corpus = replay.folder / "corpus"
    corpus.mkdir()
    (corpus / "scan.rsnap").write_bytes(good_snapshot.read_bytes())
    replay.run("corpus/scan.rsnap", "--history", "results")
    replay("baseline", "set", "results")
    assert "1 PASS" in replay("check", "corpus", "--baseline", "results", "-q").stdout
    monkeypatch.setenv("REPLAY_EMULATOR_SLOWDOWN", "scan:1.05")
    (corpus / "damaged.rsnap").write_bytes(good_snapshot.read_bytes()[:-50])
    (corpus / "foreign.rsnap").write_bytes(b"no snapshot")
    done = replay(
        "check",
        "corpus",
        "--baseline",
        "results",
        "--junit",
        "c.xml",
        "--github",
        "--json",
        "-o",
        "c.json",
        status=None,
    )
    assert done.returncode == 1
    result = json.loads(done.stdout)
    verdicts = {case["snapshot"]: case["verdict"] for case in result["cases"]}
    assert verdicts == {"scan.rsnap": "SLOWER", "damaged.rsnap": "FAILED", "foreign.rsnap": "FAILED"}
    assert "::error title=SLOWER" in done.stderr  # stdout has the JSON and nothing else
    assert xml.parse(replay.folder / "c.xml").getroot().get("failures") == "1"
    assert json.loads((replay.folder / "c.json").read_text()) == result
    replay("report", "c.json", "-o", "c.html")
    assert "scan" in (replay.folder / "c.html").read_text()
    assert "scan" in replay("explain", "c.json").stdout
