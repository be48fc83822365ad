"""Secrets are planted wherever a capture meets a text, and found in nothing that is passed on."""

from __future__ import annotations

import base64
import io
import json
import random
import string
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import zstandard

from ...unit.helpers.image_factory import make_container, make_entry
from ..conftest import DRIVER, PROGRAMS, Replay

FOLDER, USER, HOST, VALUE = "plantedfolder", "plantedada", "plantedhost", "plantedvalue"
COMMENT, SOURCE, DEBUG, MACHINE_DEBUG = "plantedcomment", "plantedsource", "planteddebug", "plantedelf"
RANGE, PRINTED, LOG = (
    "plantedrange",
    "plantedprint",
    "plantedlog",
)  # of NVTX, of a kernel, in a log of the compiler
NAME_OF_FILE = "plantedname"  # of the container's entry: the folder it is in
RANDOM = "".join(random.Random(5).choices(string.ascii_letters + string.digits, k=40))
PLANTED = (
    FOLDER,
    USER,
    HOST,
    VALUE,
    COMMENT,
    SOURCE,
    DEBUG,
    MACHINE_DEBUG,
    NAME_OF_FILE,
    RANDOM,
    RANGE,
    PRINTED,
    LOG,
)
ZSTD = b"\x28\xb5\x2f\xfd"
ENOUGH = 64 << 20


def _numbers(text: str) -> str:
    return ".b8 " + ",".join(str(byte) for byte in text.encode())


PTX = f"""//
// {COMMENT} of a compiler
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 p) /* {COMMENT} */ {{
  .reg .u64 %p, %t; .reg .u32 %i, %v; .reg .pred %q;
  .loc 1 3 1
  mov.u32 %i, %tid.x; // {COMMENT}
  ld.param.u64 %p, [p];
  mul.wide.u32 %t, %i, 4; add.u64 %p, %p, %t;
  ld.global.u32 %v, [%p]; mul.lo.u32 %v, %v, 3; st.global.u32 [%p], %v;
  ret;
}}
.file 1 "/home/{USER}/{SOURCE}/scale.cu", 1700000000, 1234
.section .debug_str
{{
{_numbers(f"/home/{USER}/{DEBUG}")},0
}}
""".encode()

_LETTERS = "".join(
    f"mov.u16 %c, {ord(letter) - 32}; add.u16 %c, %c, 32; st.local.u8 [text+{place}], %c;\n"
    for place, letter in enumerate(PRINTED)
)
# The kernel makes what it prints: so nothing but what is printed holds the secret.
PRINTS = f"""//
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.visible .entry prints(.param .u64 p) {{
  .reg .b64 %f, %n; .reg .b32 %r; .reg .b16 %c; .reg .pred %q;
  .local .align 8 .b8 text[32];
  {_LETTERS}
  mov.u16 %c, 0; st.local.u8 [text+{len(PRINTED)}], %c;
  mov.u64 %f, text; cvta.local.u64 %f, %f; mov.u64 %n, 0;
  mov.u32 %r, %tid.x; setp.ne.u32 %q, %r, 0; @%q bra done;
  {{ .param .b32 result; .param .b64 format; .param .b64 arguments;
  st.param.b64 [format], %f; st.param.b64 [arguments], %n;
  call.uni (result), vprintf, (format, arguments); ld.param.b32 %r, [result]; }}
done:
  ret;
}}
""".encode()


def _cubin() -> bytes:
    """An ELF file of machine code with nothing but a debug section."""
    text, names = f"/home/{USER}/{MACHINE_DEBUG}/x.cu".encode(), b"\0.debug_line\0.shstrtab\0"
    body = bytes(64) + text + names
    section = struct.Struct("<IIQQQQIIQQ")
    table = bytes(64) + section.pack(1, 1, 0, 0, 64, len(text), 0, 0, 1, 0)
    table += section.pack(13, 3, 0, 0, 64 + len(text), len(names), 0, 0, 1, 0)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01\x33\x08" + bytes(7), 2, 190, 1, 0, 0, len(body),
                       90 << 8, 64, 56, 0, 64, 3, 2)  # fmt: skip
    return head + body[64:] + table


@pytest.fixture
def application(
    replay: Replay, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """The program and its files, outside of the working folder, with secrets in its arguments and its environment."""
    folder = tmp_path_factory.mktemp("elsewhere") / FOLDER / USER
    folder.mkdir(parents=True)
    name = f"/src/{NAME_OF_FILE}/scale.cu".encode()
    (folder / "scale.ptx").write_bytes(PTX)
    (folder / "scale.fatbin").write_bytes(
        make_container(make_entry(1, 70, PTX + b"\0", packing="zstd", name=name))
    )
    (folder / "debug.cubin").write_bytes(_cubin())
    (folder / "prints.ptx").write_bytes(PRINTS)
    (folder / "broken.ptx").write_bytes(PTX.replace(b"mov.u32", f"mov.{'u33'}".encode()))
    home = replay.folder / "homes" / USER
    home.mkdir(parents=True)
    for variable, value in {"HOME": str(home), "USER": USER, "LOGNAME": USER, "HOSTNAME": HOST}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("SERVICE_TOKEN", VALUE)
    words = [f"--api-key={VALUE}", "--password", VALUE, f"SERVICE_TOKEN={VALUE}", f"https://me:{VALUE}@{HOST}/x?sig={VALUE}",
             RANDOM, f"--from={folder}/in.bin", f"{home}/data.bin", f"--user={USER}", f"--to={HOST}"]  # fmt: skip
    return [sys.executable, str(PROGRAMS / "secrets_everywhere.py"), str(folder), *words]


def forms(text: str) -> Iterator[tuple[str, bytes]]:
    """As it is, in UTF-16, in hexadecimal, and in base64 at each place in a group of three bytes."""
    plain = text.encode()
    yield "as it is", plain
    yield "in UTF-16", text.encode("utf-16-le")
    yield "in hexadecimal", plain.hex().encode()
    yield "in hexadecimal", plain.hex().upper().encode()
    for place in range(3):
        whole = base64.b64encode(bytes(place) + plain).rstrip(b"=")
        yield "in base64", whole[(0, 2, 3)[place] : -1]


def layers(data: bytes, depth: int = 0) -> Iterator[bytes]:
    """`data`, and whatever is compressed or in base64 somewhere inside of it."""
    yield data
    at = data.find(ZSTD) if depth < 4 else -1
    while at >= 0:
        try:
            inner = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data[at:])).read(ENOUGH)
        except zstandard.ZstdError:
            inner = b""
        if inner:
            yield from layers(inner, depth + 1)
        at = data.find(ZSTD, at + 1)


def found_in(files: Iterable[Path], planted: Iterable[str] = PLANTED) -> list[str]:
    wanted = [(text, form, encoded) for text in planted for form, encoded in forms(text)]
    return sorted(
        {
            f"{path.name}: {text} {form}"
            for path in files
            for layer in layers(path.read_bytes())
            for text, form, encoded in wanted
            if encoded in layer
        }
    )


def everything(replay: Replay, *options: str) -> list[Path]:
    """Files of every kind that is passed on, made of one capture."""
    snapshot, folder = str(replay.folder / "x.rsnap"), replay.folder / "made"
    folder.mkdir()
    driver = ("--driver", DRIVER)
    replay(
        "run",
        snapshot,
        *driver,
        "--samples",
        "3",
        "-o",
        "made/r.rres",
        "--save-outputs",
        str(folder / "outputs"),
    )
    for name, command in {
        "run.json": ["run", snapshot, *driver, "--no-timing", "--json"],
        "needs.json": ["run", snapshot, *driver, "--dry-run", "--json"],
        "info.json": ["info", snapshot, "--json"],
        "privacy.json": ["info", snapshot, "--privacy", "--json"],
        "dump.json": ["dump", snapshot, "-o", str(folder / "dumped"), "--json"],
        "history.json": ["history", str(folder), "--json"],
        "report.md": ["report", str(folder / "r.rres"), "--markdown"],
        **{f"ls-{what}.json": ["ls", snapshot, what, "--json"]
           for what in ("calls", "kernels", "memory", "images", "notes")},
    }.items():  # fmt: skip
        (folder / name).write_text(replay(*command).stdout)
    replay("report", str(folder / "r.rres"), "-o", str(folder / "page.html"))
    replay("export", snapshot, "--cuda", str(folder / "cuda"))
    replay("export", snapshot, "--python", str(folder / "python"))
    replay("compare", snapshot, snapshot, *driver, "--quick", "-o", str(folder / "compared.json"))
    corpus = replay.folder / "homes" / USER / "corpus"
    corpus.mkdir()
    (corpus / "x.rsnap").write_bytes((replay.folder / "x.rsnap").read_bytes())
    replay(
        "check",
        str(corpus),
        *driver,
        "--quick",
        "--baseline",
        str(folder),
        "--junit",
        str(folder / "junit.xml"),
        "-o",
        str(folder / "check.json"),
    )
    return [*replay.folder.glob("*.rsnap"), *(path for path in folder.rglob("*") if path.is_file())]


def test_no_file_that_is_passed_on_holds_a_planted_secret(replay: Replay, application: list[str]) -> None:
    done = replay.capture("--all", application=application)
    assert PRINTED in done.stdout, "the kernel prints it"
    assert not list(replay.folder.glob("*.rcap")), "the raw capture is deleted"
    files = everything(replay)
    assert {path.suffix for path in files} >= {
        ".rsnap",
        ".rres",
        ".json",
        ".html",
        ".md",
        ".xml",
        ".cpp",
        ".py",
        ".ptx",
    }
    assert found_in(files) == []
    images = json.loads((replay.folder / "made" / "ls-images.json").read_text())["images"]
    assert sorted({text for image in images for text in image["stripped"]}) == [
        "comments", "debug sections", "source paths",
    ]  # fmt: skip
    # What stays is enough to replay, from the file and from the exported programs.
    assert "outputs match" in replay.run().stdout


def test_the_raw_capture_holds_no_argument_that_names_its_secret(
    replay: Replay, application: list[str]
) -> None:
    replay.capture("--all", "--keep-raw", application=application)
    raw = replay.folder / "x.rcap"
    assert raw.stat().st_mode & 0o777 == 0o700
    assert found_in(raw.iterdir(), [VALUE]) == []
    assert found_in([raw / "launcher.json"]) == []


def test_everything_is_kept_where_that_is_asked_for(replay: Replay, application: list[str]) -> None:
    """And so the search finds what is there, in each place where something was planted."""
    replay.capture("--all", "--keep-raw", "--keep-command-line", "--full-images", application=application)
    kept = {line.split()[1] for line in found_in([replay.folder / "x.rsnap"])}
    # That is there as decimal numbers; these are never kept.
    assert kept == set(PLANTED) - {DEBUG, RANGE, PRINTED, LOG}
    replay("pack", "x.rcap", "-o", "full.rsnap", "--full-images", "--keep-command-line")
    assert {line.split()[1] for line in found_in([replay.folder / "full.rsnap"])} == kept
    assert "outputs match" in replay.run().stdout
