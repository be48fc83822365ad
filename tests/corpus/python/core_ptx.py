# covers: cuda.core: a program of PTX text, pooled buffers copied and closed in stream order, timing events.
# needs: cuda.core cuda.bindings numpy
import numpy as np
from cuda.bindings import driver
from cuda.core import Device, EventOptions, LaunchConfig, Program, ProgramOptions, launch

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .f64 factor)
{
  .reg .b32 %r<4>; .reg .f64 %f<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.f64 %f1, [factor];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd2, %r1, 8;
  add.u64 %rd3, %rd1, %rd2;
  ld.global.f64 %f2, [%rd3];
  mul.rn.f64 %f2, %f2, %f1;
  st.global.f64 [%rd3], %f2;
  ret;
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(PTX, code_type="ptx", options=ProgramOptions(arch=f"sm_{device.arch}"))
kernel = program.compile("cubin").get_kernel("scale")
config = LaunchConfig(grid=16, block=128)
values = np.linspace(-4, 4, 2048)
timed = EventOptions(timing_enabled=True)

x, y = (device.allocate(values.nbytes, stream=stream) for _ in range(2))
stream.sync()
assert driver.cuMemcpyHtoD(int(x.handle), values.ctypes.data, values.nbytes)[0] == 0
start = stream.record(options=timed)
launch(stream, config, kernel, x, np.float64(2.5))
y.copy_from(x, stream=stream)
launch(stream, config, kernel, y, np.float64(-1))
launch(stream, config, kernel, x, np.float64(0))
end = stream.record(options=timed)
stream.sync()
result = np.empty_like(values)
assert driver.cuMemcpyDtoH(result.ctypes.data, int(y.handle), result.nbytes)[0] == 0
np.testing.assert_array_equal(result, values * -2.5)
assert end - start > 0
for buffer in (x, y):
    buffer.close(stream)
stream.sync()
print("ok")
