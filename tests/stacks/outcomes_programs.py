"""Runs programs one after another and writes a line for each: outcome, name and cause, with tabs.

Passed is an exit status of 0, skipped the word [SKIP] in the output with that. The cause is the exit status of one that
failed, "time" at its limit; of one that passed, a digest of the output without its addresses, and its fractions, which
are mostly times. A .py file is run with this Python, or given to
RUNNER.

usage: python outcomes_programs.py FILE [--with RUNNER.py] [--limit SECONDS] PROGRAM...
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile


def outcome(command, limit_s):
    with tempfile.TemporaryDirectory(prefix="replay-program-") as folder:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None,
                cwd=folder,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "failed", "time"
    if done.returncode != 0:
        return "failed", str(done.returncode)
    if b"[SKIP]" in done.stdout:
        return "skipped", ""
    text = re.sub(rb"0x[0-9a-f]+|\d+\.\d+(e[-+]?\d+)?", b"#", done.stdout)
    return "passed", hashlib.sha256(text).hexdigest()[:8]


def main(path, programs):
    runner, limit_s = [], 300.0
    if programs[0] == "--with":
        runner, programs = [os.path.abspath(programs[1])], programs[2:]
    if programs[0] == "--limit":
        limit_s, programs = float(programs[1]), programs[2:]
    common = os.path.commonpath([os.path.dirname(program) for program in programs])
    with open(path, "w", encoding="utf-8") as file:
        for program in programs:
            python = [sys.executable, *runner] if program.endswith(".py") else []
            ended, cause = outcome([*python, program], limit_s)
            print(ended, os.path.relpath(program, common), cause, sep="\t", file=file, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
