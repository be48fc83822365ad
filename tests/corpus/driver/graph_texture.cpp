// covers: A kernel in a graph that is given a texture object; the graph outlives its capture.
#include "check.hpp"

static const char *const FETCH = PTX_HEADER R"(
.visible .entry fetch(.param .u64 out, .param .u64 texture, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [texture]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p, %r2, %r1;
  @%p ret;
  sub.u32 %r3, %r1, %r2; sub.u32 %r3, %r3, 1;
  tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd2, {%r3}];
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd4, %rd1, %rd3;
  ld.global.f32 %f5, [%rd4];
  add.f32 %f5, %f5, %f1;
  st.global.f32 [%rd4], %f5;
  ret;
}
)";

int main() {
  Primary primary;
  CUfunction kernel = function(load(FETCH), "fetch");
  const unsigned n = 64;
  std::vector<float> values(n), out(n);
  for (unsigned i = 0; i < n; i++)
    values[i] = 1.5f * float(i);
  Words in(n), sums(std::vector<uint32_t>(n, 0u));
  CHECK(cuMemcpyHtoD(in.address, values.data(), n * 4));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = in.address;
  resource.res.linear.format = CU_AD_FORMAT_FLOAT;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = n * 4;
  CUDA_TEXTURE_DESC how = {};
  CUtexObject unused, texture;
  CHECK(cuTexObjectCreate(&unused, &resource, &how, nullptr));
  CHECK(cuTexObjectCreate(&texture, &resource, &how, nullptr));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUgraph graph;
  CUgraphExec executable;
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(launch(kernel, 1, n, stream, sums.address, texture, n));
  CHECK(cuStreamEndCapture(stream, &graph));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  CHECK(cuGraphDestroy(graph));
  for (int i = 0; i < 3; i++)
    CHECK(cuGraphLaunch(executable, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(out.data(), sums.address, n * 4));
  for (unsigned i = 0; i < n; i++)
    REQUIRE(out[i] == 3 * values[n - 1 - i]);
  CHECK(cuGraphExecDestroy(executable));
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuTexObjectDestroy(unused));
  CHECK(cuStreamDestroy(stream));
  return ok();
}
