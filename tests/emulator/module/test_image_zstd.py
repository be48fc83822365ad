"""PTX that is stored with ZSTD: a frame's checksum proves what was unpacked."""

from __future__ import annotations

import random
import time

import driver_api as api
import pytest
import zstandard
from driver_api import Driver
from test_image import PTX, ZSTD, container, entry, text


def packed(data: bytes, level: int = 3, **parameters: int) -> bytes:
    options = zstandard.ZstdCompressionParameters.from_level(level, write_checksum=True, **parameters)
    return zstandard.ZstdCompressor(compression_params=options).compress(data)


def image(frame: bytes, unpacked: int) -> bytes:
    whole = bytearray(entry(PTX, 80, frame + bytes(-len(frame) % 8)))
    whole[16:20] = len(frame).to_bytes(4, "little")
    whole[40:48] = (0x11 | ZSTD).to_bytes(8, "little")
    whole[56:64] = unpacked.to_bytes(8, "little")
    return container(bytes(whole))


def comment(kind: str, size: int, seed: int) -> bytes:
    noise = random.Random(seed)
    if kind == "random":
        body = bytes(noise.choices([*range(1, 42), *range(43, 256)], k=size))  # no NUL, no '*'
    elif kind == "letters":
        body = bytes(noise.choices(b"abcde", weights=[60, 9, 3, 1, 1], k=size))
    elif kind == "run":
        body = b"x" * size
    else:
        body = b""
        while len(body) < size:
            back = noise.randrange(1, len(body) + 1) if body else 0
            body += body[len(body) - back :][: noise.randrange(3, 3000)] if back else b""
            body += bytes(noise.choices(b"0123456789,", k=noise.randrange(1, 40)))
        body = body[:size]
    return b"/*" + body + b"*/\n" + text("one")


@pytest.mark.parametrize("kind", ["random", "letters", "run", "matches"])
@pytest.mark.parametrize("level", [-5, 1, 3, 9, 19, 22])
def test_every_level_and_kind_of_text_unpacks(cuda: Driver, kind: str, level: int):
    for size in (0, 1, 31, 255, 1000, 70_000, 131_072, 300_000 if level < 19 else 140_000):
        data = comment(kind, size, size + level)
        for parameters in ({}, {"window_log": 12}):
            module = image(packed(data, level, **parameters), len(data))
            assert cuda.cuModuleLoadData(api.out(api.handle()), module) == 0, (size, parameters)


def test_a_frame_in_pieces_without_its_size_unpacks(cuda: Driver):
    data = comment("matches", 200_000, 1)
    piecewise = zstandard.ZstdCompressor(level=5, write_checksum=True).compressobj()
    frame = b"".join(
        piecewise.compress(data[at : at + 30_000]) + piecewise.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        for at in range(0, len(data), 30_000)
    )
    assert cuda.cuModuleLoadData(api.out(api.handle()), image(frame + piecewise.flush(), len(data))) == 0


def test_a_wrong_checksum_a_wrong_size_and_a_dictionary_are_refused(cuda: Driver):
    data = comment("letters", 5000, 2)
    frame = packed(data)
    damaged = frame[:-1] + bytes([frame[-1] ^ 1])
    assert cuda.cuModuleLoadData(api.out(api.handle()), image(damaged, len(data))) == api.INVALID_IMAGE
    for size in (len(data) - 1, len(data) + 1, 1 << 29):
        assert cuda.cuModuleLoadData(api.out(api.handle()), image(frame, size)) == api.INVALID_IMAGE
    trained = bytearray(frame)
    trained[4] |= 1  # a dictionary's number of one byte follows
    trained.insert(5, 7)
    assert cuda.cuModuleLoadData(api.out(api.handle()), image(bytes(trained), len(data))) == api.INVALID_IMAGE


def test_without_the_library_the_image_is_refused_in_words(fresh, tmp_path):
    (tmp_path / "libzstd.so.1").write_text("no library")
    (tmp_path / "image").write_bytes(image(packed(text("one")), len(text("one"))))
    done = fresh(
        f"print(d.cuModuleLoadData(out(handle()), open({str(tmp_path / 'image')!r}, 'rb').read()))",
        environment={"LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert done.stdout == "303\n"  # CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
    assert "this machine has no libzstd.so.1; install" in done.stderr


def test_damaged_frames_are_refused_in_bounded_time(cuda: Driver):
    data = comment("matches", 20_000, 3)
    noise = random.Random(4)
    frames = [packed(data, level) for level in (1, 19)]
    begin = time.process_time()
    for number in range(1500):
        frame = bytearray(noise.choice(frames))
        if number % 4 == 0:
            del frame[noise.randrange(len(frame)) :]
        for _ in range(noise.randint(1, 4)):
            if frame:
                frame[noise.randrange(min(len(frame), 60 if noise.random() < 0.5 else len(frame)))] = (
                    noise.randrange(256)
                )
        error = cuda.cuModuleLoadData(api.out(api.handle()), image(bytes(frame), len(data)))
        assert error in (0, api.INVALID_IMAGE, api.INVALID_PTX), number
    assert time.process_time() - begin < 60
