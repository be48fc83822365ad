"""printf and assert on the device."""

from __future__ import annotations

import struct

import driver_api as api
import pytest

# say(): calls vprintf with the format and the packed arguments that are in `data`, and stores what it returns.
SAY = (
    api.HEADER
    + """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 8 .b8 format[4096];
.global .align 8 .b8 data[512];
.global .align 1 .b8 text[8] = {100, 101, 118, 105, 99, 101, 0, 0};
.visible .entry say(.param .u64 out, .param .u64 has_format)
{
  .reg .b64 %rd<6>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd4, [has_format];
  cvta.global.u64 %rd2, format; mul.lo.u64 %rd2, %rd2, %rd4; cvta.global.u64 %rd3, data;
  { .param .b32 r; .param .b64 f; .param .b64 a; st.param.b64 [f], %rd2; st.param.b64 [a], %rd3;
    call.uni (r), vprintf, (f, a); ld.param.b32 %r1, [r]; }
  st.global.u32 [%rd1], %r1;
  ret;
}
.global .align 1 .b8 message[8] = {120, 32, 62, 32, 48, 0, 0, 0};
.global .align 1 .b8 file[8] = {97, 46, 99, 117, 0, 0, 0, 0};
.global .align 1 .b8 function[16] = {118, 111, 105, 100, 32, 102, 40, 41, 0};
.visible .entry check()
{
  .reg .b64 %rd<6>; .reg .b32 %r1; .reg .pred %p1;
  mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 2; @!%p1 bra done;
  cvta.global.u64 %rd1, message; cvta.global.u64 %rd2, file; cvta.global.u64 %rd3, function;
  { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
    st.param.b64 [m], %rd1; st.param.b64 [f], %rd2; st.param.b32 [l], 19; st.param.b64 [n], %rd3;
    st.param.b64 [c], 1; call.uni __assertfail, (m, f, l, n, c); }
done:
  ret;
}
"""
)

SCRIPT = f"""
        module = d.module({SAY!r})
        result = d.alloc(4)
        def place(name):
            address = handle()
            d.do("cuModuleGetGlobal_v2", out(address), None, module, name)
            return address.value
        def say(format, data=b"", has_format=1):
            d.write(place("format"), format + b"\\0")
            if data:
                d.write(place("data"), data)
            assert d.launch(d.function(module, "say"), (1,), (1,), [result, has_format]) == 0
            assert d.cuCtxSynchronize() == 0
            return struct.unpack("i", d.read(result, 4))[0]
        """


@pytest.mark.parametrize(
    ("form", "data", "printed", "count"),
    [
        ("nothing 100%%", b"", "nothing 100%", 0),
        ("%d %i %u", struct.pack("iiI", -1, 2, 4000000000), "-1 2 4000000000", 3),
        ("%5d|%-5d|%05d|%+d|% d", struct.pack("5i", 1, 2, 3, 4, 5), "    1|2    |00003|+4| 5", 5),
        ("%x %X %#o %c", struct.pack("4i", 255, 255, 8, 65), "ff FF 010 A", 4),
        ("%hd %hhd", struct.pack("2i", 65537, 257), "1 1", 2),
        ("%d %lld %ld", struct.pack("iiqq", 7, 0, -(1 << 40), 1 << 41), "7 -1099511627776 2199023255552", 3),
        ("%llu %llx", struct.pack("QQ", (1 << 64) - 1, 1 << 63), "18446744073709551615 8000000000000000", 2),
        ("%f %.2e %g %a", struct.pack("4d", 1.5, 12345.678, 0.5, 1), "1.500000 1.23e+04 0.5 0x1p+0", 4),
        ("%8.3f|%-8.1f|%+.0f", struct.pack("3d", 1, 2, 3), "   1.000|2.0     |+3", 3),
        ("%*d|%-*d|%.*f", struct.pack("iiiiiid", 4, 1, 4, 2, 1, 0, 3.25), "   1|2   |3.2", 6),
        ("%p %p", struct.pack("QQ", 0x1234, 0), "0x1234 (nil)", 2),
        ("%s", struct.pack("Q", 0), "(null)", 1),
        ("%y %", b"", "%y %", 0),
        ("%d" * 33, struct.pack("33i", *[1] * 33), "1" * 32 + "%d", 32),
    ],
)
def test_conversions_as_documented(fresh, form: str, data: bytes, printed: str, count: int):
    done = fresh(SCRIPT + f"print('returned', say({form.encode() + b'|'!r}, {data!r}))")
    assert done.stdout == printed + "|" + f"returned {count}\n"


def test_strings_come_from_device_memory_and_no_format_is_an_error(fresh):
    done = fresh(
        SCRIPT + 'print(say(b"%s %.3s %8s|", struct.pack("3Q", *[place("text")] * 3)), say(b"", b"", 0))'
    )
    assert done.stdout == "device dev   device|3 -1\n"


def test_output_is_seen_only_after_calls_that_flush_it(fresh):
    launch = 'd.write(place("format"), b"once\\n\\0"); d.launch(d.function(module, "say"), (1,), (1,), [result, 1])'
    assert fresh(SCRIPT + launch).stdout == ""  # documented: not at the program's end
    for flush in ("d.cuCtxSynchronize()", "d.cuStreamSynchronize(0)", "d.read(result, 4)", launch):
        assert fresh(SCRIPT + launch + "; " + flush).stdout == "once\n", flush


def test_a_full_buffer_loses_the_oldest_output(fresh):
    done = fresh(
        SCRIPT
        + """
        d.do("cuCtxSetLimit", 1, 4096)
        f = d.function(module, "say")
        d.write(place("format"), b"%d,\\0")
        d.launch(f, (1000,), (1,), [result, 1])
        d.cuCtxSynchronize()
        """
    )
    assert 0 < done.stdout.count(",") <= 4096 // 8


def test_an_assertion_prints_a_line_a_thread(fresh):
    done = fresh(
        SCRIPT + 'd.launch(d.function(module, "check"), (2,), (32,), []); print(d.cuCtxSynchronize())'
    )
    assert done.stdout == "710\n"
    lines = done.stderr.splitlines()
    for thread in (0, 1):
        line = f"a.cu:19: void f(): block: [0,0,0], thread: [{thread},0,0] Assertion `x > 0` failed."
        assert line in lines
    assert "thread: [2,0,0]" not in done.stderr
