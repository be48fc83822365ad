"""The driver's messages, for programs that ask for them instead of reading stderr."""

from __future__ import annotations

SCRIPT = """
heard = []
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def hear(data, level, message, size):
    heard.append((data, level, ctypes.string_at(message, size), d.cuMemAlloc_v2(out(handle()), 4)))
callback = kind(hear)
registration = handle()
d.do("cuLogsRegisterCallback", callback, 77, out(registration))
def dump(size, iterator=None):
    buffer, length = ctypes.create_string_buffer(b"?" * size, size), handle(size)
    error = d.cuLogsDumpToMemory(iterator, buffer, out(length), 0)
    return error, buffer.raw[: length.value], length.value
def complain():
    d.cuModuleLoadData(out(handle()), "neither this nor that")
"""


def test_messages_reach_callbacks_and_the_buffer(fresh, tmp_path):
    done = fresh(
        SCRIPT
        + f"""
print(dump(100)[::2])
complain()
(data, level, text, error), = heard
print(data, level, error, b"neither PTX" in text)  # a callback may not call the driver
print(dump(4096)[1] == text + b"\\n")
position = ctypes.c_uint()
d.do("cuLogsCurrent", out(position), 0)
print(dump(4096, out(position)))
d.do("cuLogsUnregisterCallback", registration)
print(d.cuLogsUnregisterCallback(registration))
complain()
print(len(heard), dump(4096, out(position))[1] == text + b"\\n", dump(4096, out(position))[2])
print(dump(8)[::2], dump(len(text) + 2)[1] == text + b"\\n", dump(4096)[1].count(b"\\n"))
d.do("cuLogsDumpToFile", None, {str(tmp_path / "log")!r}, 0)
print(d.cuLogsDumpToFile(None, {str(tmp_path / "none" / "log")!r}, 0))
""",
        QUIET="1",
    )
    assert done.stdout.splitlines() == [
        "(0, 0)",
        "77 0 800 True",
        "True",
        "(0, b'', 0)",
        "1",
        "1 True 0",
        "(1, 0) False 2",
        "1",
    ]
    assert (tmp_path / "log").read_text().count("neither PTX") == 2
    assert done.stderr == ""


def test_old_messages_make_room(fresh):
    done = fresh(
        SCRIPT + "for _ in range(600): complain()\n"
        "error, text, size = dump(1 << 16)\n"
        "print(error, size <= 25600 + 64, text.startswith(b'(older'), text.count(b'neither PTX') > 50)",
        QUIET="1",
    )
    assert done.stdout.split() == ["0", "True", "True", "True"]
