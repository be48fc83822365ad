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
)";

} // namespace emulator
