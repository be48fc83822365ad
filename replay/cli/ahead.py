"""The worker of `replay run` starts before the command has imported the parser of its own command line: the two then
start side by side, as far as there are two processors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from replay.report.streams import output

# Options with which another worker is needed, or none
_OTHER = {
    "-h", "--help", "--profile", "--trust", "--untrusted", "--vary-inputs", "--swap", "--ptxas", "--tileiras",
    "--triton", "--num-warps", "--num-stages", "--constant", "--llvm-options", "--jit", "--grid", "--block", "--shared",
}  # fmt: skip


@contextmanager
def worker_ahead(arguments: Sequence[str]) -> Iterator[None]:
    """For a command line that has not been parsed. A guess: a worker that is not needed ends at the end of this."""
    names = {word.partition("=")[0] for word in arguments[1:]}
    if len(arguments) < 2 or arguments[0] != "run" or names & _OTHER:
        yield
        return
    from replay.run.supervisor import end_ahead, start_ahead

    output.ask_for_json("--json" in names)  # for an interrupt that comes before the parser
    try:
        start_ahead(_driver(arguments))
        yield
    finally:
        end_ahead()


def _driver(arguments: Sequence[str]) -> str | None:
    """What `--driver` says; the last one counts."""
    found = None
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--driver":
            found = value if equals else following
    return found
