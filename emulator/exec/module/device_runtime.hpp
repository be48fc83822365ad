// Functions of the CUDA device runtime that kernels call, as PTX. On a GPU they come from libcudadevrt.a,
// which holds machine code and is not read here; its declarations are in cuda_device_runtime_api.h. Weak, so
// that a text's own wins.
#pragma once

#include <string_view>

namespace emulator {

// numba-cuda and older nvcc synchronise grids through these; handles of several devices (scope 2) are null,
// as is a grid's handle in a launch that is not cooperative, and cudaCGSynchronize of null is
// cudaErrorInvalidValue. The word that counts arrivals lies 4 bytes into the grid's workspace, where code
// compiled with cooperative_groups.h has it too: its top bit flips when the last block has come.
//
// A stream or event of the device orders nothing that is not ordered anyway: what kernels launch runs in the
// order of the launches, after the kernel. Its handle is a number that no stream of cuda_runtime_api.h has.
// Copies and fills are grids of their own.
//
// The handle of a conditional node's value is the address of that value.
inline constexpr std::string_view device_runtime_names[] = {"cudaCGGetIntrinsicHandle", "cudaCGSynchronize",
                                                            "cudaGraphSetConditional", "__cudaCDP2"};
inline constexpr std::string_view device_runtime_text = R"(
.version 6.0
.target sm_50
.address_size 64
.weak .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .b32 %r<4>; .reg .b64 %rd; .reg .pred %p;
  ld.param.u32 %r0, [scope];
  mov.u32 %r1, %envreg1;
  mov.u32 %r2, %envreg2;
  mov.b64 %rd, {%r2, %r1};
  setp.ne.u32 %p, %r0, 1;
  @%p mov.u64 %rd, 0;
  st.param.b64 [result], %rd;
  ret;
}
.weak .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .b32 %r<6>; .reg .b64 %grid; .reg .pred %p;
  ld.param.u64 %grid, [handle];
  setp.eq.u64 %p, %grid, 0;
  @%p bra no_grid;
  bar.sync 0;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %tid.y;
  or.b32 %r0, %r0, %r1;
  mov.u32 %r1, %tid.z;
  or.b32 %r0, %r0, %r1;
  setp.ne.u32 %p, %r0, 0;
  @%p bra others_wait;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ctaid.y;
  or.b32 %r0, %r0, %r1;
  mov.u32 %r1, %ctaid.z;
  or.b32 %r0, %r0, %r1;
  setp.ne.u32 %p, %r0, 0;
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %nctaid.y;
  mul.lo.u32 %r0, %r0, %r1;
  mov.u32 %r1, %nctaid.z;
  mul.lo.u32 %r0, %r0, %r1;
  sub.u32 %r0, 0x80000001, %r0;
  @%p mov.u32 %r0, 1;
  membar.gl;
  atom.global.add.u32 %r1, [%grid+4], %r0;
again:
  ld.volatile.global.u32 %r2, [%grid+4];
  xor.b32 %r2, %r2, %r1;
  setp.ge.s32 %p, %r2, 0;
  @%p bra again;
  membar.gl;
others_wait:
  bar.sync 0;
  st.param.b32 [result], 0;
  ret;
no_grid:
  st.param.b32 [result], 1;
  ret;
}
.weak .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value)
{
  .reg .b64 %rd; .reg .b32 %r;
  ld.param.u64 %rd, [handle];
  ld.param.u32 %r, [value];
  st.global.u32 [%rd], %r;
  ret;
}
.extern .func (.param .b64 result) malloc(.param .b64 bytes);
.extern .func free(.param .b64 address);
.weak .func (.param .b32 result) __cudaCDP2GetDevice(.param .b64 to)
{
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  st.u32 [%rd], 0;
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2StreamCreateWithFlags(.param .b64 to, .param .b32 flags)
{
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  st.u64 [%rd], 0x10000;
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2StreamDestroy(.param .b64 stream)
{
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2EventCreateWithFlags(.param .b64 to, .param .b32 flags)
{
  .reg .b64 %rd;
  ld.param.u64 %rd, [to];
  st.u64 [%rd], 0x20000;
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2EventRecord(.param .b64 event, .param .b64 stream)
{
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2EventDestroy(.param .b64 event)
{
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2StreamWaitEvent(.param .b64 stream, .param .b64 event, .param .b32 flags)
{
  st.param.b32 [result], 0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2Malloc(.param .b64 to, .param .b64 bytes)
{
  .reg .b64 %rd<3>; .reg .b32 %r; .reg .pred %p;
  ld.param.u64 %rd0, [bytes];
  { .param .b64 size; .param .b64 address;
    st.param.b64 [size], %rd0;
    call (address), malloc, (size);
    ld.param.b64 %rd1, [address]; }
  ld.param.u64 %rd2, [to];
  st.u64 [%rd2], %rd1;
  setp.eq.u64 %p, %rd1, 0;
  selp.b32 %r, 2, 0, %p;
  st.param.b32 [result], %r;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2Free(.param .b64 address)
{
  .reg .b64 %rd;
  ld.param.u64 %rd, [address];
  { .param .b64 given;
    st.param.b64 [given], %rd;
    call free, (given); }
  st.param.b32 [result], 0;
  ret;
}
.extern .func (.param .b64 buffer) __cudaCDP2GetParameterBufferV2(.param .b64 kernel,
  .param .align 4 .b8 grid[12], .param .align 4 .b8 block[12], .param .b32 shared);
.extern .func (.param .b32 error) __cudaCDP2LaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
.weak .entry device_runtime_copy(.param .u64 to, .param .u64 from, .param .u64 bytes)
{
  .reg .b64 %to, %from, %bytes, %at, %rd<2>; .reg .b32 %t, %value; .reg .pred %p;
  ld.param.u64 %to, [to]; ld.param.u64 %from, [from]; ld.param.u64 %bytes, [bytes];
  mov.u32 %t, %tid.x;
  cvt.u64.u32 %at, %t;
again:
  setp.ge.u64 %p, %at, %bytes;
  @%p ret;
  add.u64 %rd0, %from, %at; ld.u8 %value, [%rd0];
  add.u64 %rd1, %to, %at; st.u8 [%rd1], %value;
  add.u64 %at, %at, 256;
  bra again;
}
.weak .entry device_runtime_fill(.param .u64 to, .param .u64 bytes, .param .u32 value)
{
  .reg .b64 %to, %from, %bytes, %at, %rd<2>; .reg .b32 %t, %value; .reg .pred %p;
  ld.param.u64 %to, [to]; ld.param.u64 %bytes, [bytes]; ld.param.u32 %value, [value];
  mov.u32 %t, %tid.x;
  cvt.u64.u32 %at, %t;
again:
  setp.ge.u64 %p, %at, %bytes;
  @%p ret;
  add.u64 %rd1, %to, %at; st.u8 [%rd1], %value;
  add.u64 %at, %at, 256;
  bra again;
}
.weak .func (.param .b32 result) __cudaCDP2MemcpyAsync(.param .b64 to, .param .b64 from, .param .b64 bytes, .param .b32 kind, .param .b64 stream)
{
  .reg .b64 %rd<6>; .reg .b32 %r<3>; .reg .pred %p;
  mov.u64 %rd0, device_runtime_copy;
  { .param .b64 kernel; .param .align 4 .b8 grid[12]; .param .align 4 .b8 block[12]; .param .b32 shared;
    .param .b64 buffer;
    st.param.b64 [kernel], %rd0;
    st.param.b32 [grid], 1; st.param.b32 [grid+4], 1; st.param.b32 [grid+8], 1;
    st.param.b32 [block], 256; st.param.b32 [block+4], 1; st.param.b32 [block+8], 1;
    st.param.b32 [shared], 0;
    call (buffer), __cudaCDP2GetParameterBufferV2, (kernel, grid, block, shared);
    ld.param.b64 %rd1, [buffer]; }
  setp.eq.u64 %p, %rd1, 0;
  mov.u32 %r0, 2;
  @%p bra done;
  ld.param.u64 %rd2, [to]; ld.param.u64 %rd3, [from]; ld.param.u64 %rd4, [bytes];
  st.u64 [%rd1], %rd2; st.u64 [%rd1+8], %rd3; st.u64 [%rd1+16], %rd4;
  ld.param.u64 %rd5, [stream];
  { .param .b64 buffer; .param .b64 where; .param .b32 error;
    st.param.b64 [buffer], %rd1; st.param.b64 [where], %rd5;
    call (error), __cudaCDP2LaunchDeviceV2, (buffer, where);
    ld.param.b32 %r0, [error]; }
done:
  st.param.b32 [result], %r0;
  ret;
}
.weak .func (.param .b32 result) __cudaCDP2MemsetAsync(.param .b64 to, .param .b32 value, .param .b64 bytes, .param .b64 stream)
{
  .reg .b64 %rd<6>; .reg .b32 %r<3>; .reg .pred %p;
  mov.u64 %rd0, device_runtime_fill;
  { .param .b64 kernel; .param .align 4 .b8 grid[12]; .param .align 4 .b8 block[12]; .param .b32 shared;
    .param .b64 buffer;
    st.param.b64 [kernel], %rd0;
    st.param.b32 [grid], 1; st.param.b32 [grid+4], 1; st.param.b32 [grid+8], 1;
    st.param.b32 [block], 256; st.param.b32 [block+4], 1; st.param.b32 [block+8], 1;
    st.param.b32 [shared], 0;
    call (buffer), __cudaCDP2GetParameterBufferV2, (kernel, grid, block, shared);
    ld.param.b64 %rd1, [buffer]; }
  setp.eq.u64 %p, %rd1, 0;
  mov.u32 %r0, 2;
  @%p bra done;
  ld.param.u64 %rd2, [to]; ld.param.u32 %r1, [value]; ld.param.u64 %rd4, [bytes];
  st.u64 [%rd1], %rd2; st.u64 [%rd1+8], %rd4; st.u32 [%rd1+16], %r1;
  ld.param.u64 %rd5, [stream];
  { .param .b64 buffer; .param .b64 where; .param .b32 error;
    st.param.b64 [buffer], %rd1; st.param.b64 [where], %rd5;
    call (error), __cudaCDP2LaunchDeviceV2, (buffer, where);
    ld.param.b32 %r0, [error]; }
done:
  st.param.b32 [result], %r0;
  ret;
}
.weak .global .align 8 .b8 device_runtime_no_error[9] = {110, 111, 32, 101, 114, 114, 111, 114, 0};
.weak .global .align 8 .b8 device_runtime_error[31] = {97, 110, 32, 101, 114, 114, 111, 114, 32,
  111, 102, 32, 116, 104, 101, 32, 100, 101, 118, 105, 99, 101, 32, 114, 117, 110, 116, 105, 109,
  101, 0};
.weak .func (.param .b64 result) __cudaCDP2GetErrorString(.param .b32 error)
{
  .reg .b64 %rd<2>; .reg .b32 %r; .reg .pred %p;
  ld.param.u32 %r, [error];
  setp.eq.u32 %p, %r, 0;
  mov.u64 %rd0, device_runtime_no_error; mov.u64 %rd1, device_runtime_error;
  selp.b64 %rd0, %rd0, %rd1, %p;
  cvta.global.u64 %rd0, %rd0;
  st.param.b64 [result], %rd0;
  ret;
}
)";

} // namespace emulator
