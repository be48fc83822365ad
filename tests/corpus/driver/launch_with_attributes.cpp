// covers: cuLaunchKernelEx: clusters whose blocks write into each other's shared memory, cooperative
// launches, a stream priority, and attributes that a launch must refuse.
#include "check.hpp"

// Each block leaves its number with the next block of its cluster; out[block] = what it found.
static const char *const PTX = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry pass_on(.param .u64 out)
{
  .shared .align 4 .u32 found;
  .reg .b32 %r<10>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %ctaid.x;
  add.u32 %r4, %r1, 1;
  rem.u32 %r4, %r4, %r2;
  mov.u32 %r5, found;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  st.shared::cluster.u32 [%r6], %r3;
  barrier.cluster.arrive;
  barrier.cluster.wait;
  ld.shared.u32 %r7, [found];
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r7;
  ret;
}
)";

int main() {
  Primary primary;
  CUmodule module = load(PTX), plain = load(AXPB);
  CUfunction pass_on = function(module, "pass_on"), axpb_kernel = function(plain, "axpb");
  const unsigned blocks = 16, width = 4;
  Words out(blocks);
  void *arguments[] = {&out.address};

  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUlaunchAttribute attributes[2] = {};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.clusterDim.x = width;
  attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
  attributes[1].value.clusterSchedulingPolicyPreference = CU_CLUSTER_SCHEDULING_POLICY_SPREAD;
  CUlaunchConfig config = {};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  CHECK(cuLaunchKernelEx(&config, pass_on, arguments, nullptr));
  CHECK(cuStreamSynchronize(stream));
  std::vector<uint32_t> expected(blocks);
  for (unsigned block = 0; block < blocks; block++)
    expected[block] = block / width * width + (block + width - 1) % width;
  equal("passed on", words(out.address, blocks), expected);

  int clusters = 0;
  CHECK(cuOccupancyMaxActiveClusters(&clusters, pass_on, &config));
  REQUIRE(clusters > 0);
  config.gridDimX = blocks - 1; // no whole number of clusters
  REQUIRE(cuLaunchKernelEx(&config, pass_on, arguments, nullptr) != CUDA_SUCCESS);

  auto values = counting(1000);
  Words x(values);
  uint32_t a = 3, b = 7, count = 1000;
  void *axpb_arguments[] = {&x.address, &a, &b, &count};
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[0].value = {};
  attributes[0].value.cooperative = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[1].value = {};
  config.gridDimX = 8;
  config.blockDimX = 125;
  CHECK(cuLaunchKernelEx(&config, axpb_kernel, axpb_arguments, nullptr));
  config.gridDimX = 1u << 20; // more than can be resident at once
  EXPECT(cuLaunchKernelEx(&config, axpb_kernel, axpb_arguments, nullptr),
         CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  CHECK(cuStreamSynchronize(stream));
  equal("x", words(x.address, count), axpb(values, a, b));
  CHECK(cuStreamDestroy(stream));
  return ok();
}
