// Two devices: what they are, kernels and variables on each, copies between them, each thread's own choice.
#include "check.h"

#include <cstring>
#include <thread>

__device__ int calls;

__global__ void count_call(int *out) { *out = ++calls; }

static int call(int device) {
  int *memory, result = -1;
  OK(cudaSetDevice(device));
  OK(cudaMalloc(&memory, sizeof *memory));
  count_call<<<1, 1>>>(memory);
  OK(cudaMemcpy(&result, memory, sizeof result, cudaMemcpyDeviceToHost));
  OK(cudaFree(memory));
  return result;
}

static int attribute(cudaDeviceAttr which) {
  int value = -1;
  OK(cudaDeviceGetAttribute(&value, which, 1));
  return value;
}

int main() {
  int devices = 0, current = -1;
  OK(cudaGetDeviceCount(&devices));
  CHECK(devices == 2);
  OK(cudaGetDevice(&current));
  CHECK(current == 0);
  ERROR_IS(cudaSetDevice(2), cudaErrorInvalidDevice);
  ERROR_IS(cudaSetDevice(-1), cudaErrorInvalidDevice);
  cudaGetLastError();

  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 1));
  CHECK(std::strlen(properties.name) > 0);
  CHECK(properties.warpSize == 32 && properties.major >= 5);
  CHECK(properties.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount));
  CHECK(properties.maxThreadsPerBlock == attribute(cudaDevAttrMaxThreadsPerBlock));
  CHECK(properties.maxThreadsDim[2] == attribute(cudaDevAttrMaxBlockDimZ));
  CHECK(properties.maxGridSize[0] == attribute(cudaDevAttrMaxGridDimX));
  CHECK((int)properties.sharedMemPerBlock == attribute(cudaDevAttrMaxSharedMemoryPerBlock));
  CHECK((int)properties.sharedMemPerBlockOptin == attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  CHECK(properties.regsPerMultiprocessor == attribute(cudaDevAttrMaxRegistersPerMultiprocessor));
  CHECK(properties.pciBusID == attribute(cudaDevAttrPciBusId));
  CHECK(properties.cooperativeLaunch == attribute(cudaDevAttrCooperativeLaunch));
  CHECK(properties.maxBlocksPerMultiProcessor == attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
  CHECK(properties.clusterLaunch == attribute(cudaDevAttrClusterLaunch));
  CHECK(properties.l2CacheSize == attribute(cudaDevAttrL2CacheSize));
  size_t free_bytes, total_bytes;
  OK(cudaSetDevice(1));
  OK(cudaMemGetInfo(&free_bytes, &total_bytes));
  CHECK(properties.totalGlobalMem == total_bytes);
  ERROR_IS(cudaGetDeviceProperties(&properties, 7), cudaErrorInvalidDevice);
  char bus[32];
  OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  OK(cudaDeviceGetByPCIBusId(&current, bus));
  CHECK(current == 1);

  // Each device has variables of its own.
  CHECK(call(0) == 1);
  CHECK(call(0) == 2);
  CHECK(call(1) == 1);
  CHECK(call(0) == 3);
  // Each thread begins with the first device.
  OK(cudaSetDevice(1));
  int of_thread = -1, count = -1;
  std::thread([&] {
    OK(cudaGetDevice(&of_thread));
    count = call(0);
  }).join();
  CHECK(of_thread == 0 && count == 4);
  OK(cudaGetDevice(&current));
  CHECK(current == 1);

  int *far, *near, value = 77, back = 0, can = 0;
  OK(cudaSetDevice(0));
  OK(cudaMalloc(&near, sizeof(int)));
  OK(cudaMemcpy(near, &value, sizeof value, cudaMemcpyHostToDevice));
  OK(cudaSetDevice(1));
  OK(cudaMalloc(&far, sizeof(int)));
  OK(cudaMemcpyPeer(far, 1, near, 0, sizeof(int)));
  OK(cudaMemcpy(&back, far, sizeof back, cudaMemcpyDeviceToHost));
  CHECK(back == 77);
  OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  CHECK(can == 1);
  OK(cudaDeviceEnablePeerAccess(0, 0));
  ERROR_IS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
  count_call<<<1, 1>>>(near);
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(&back, near, sizeof back, cudaMemcpyDefault));
  CHECK(back == 2);
  OK(cudaDeviceDisablePeerAccess(0));
  cudaGetLastError();

  size_t stack;
  OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  OK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  CHECK(stack == 4096);
  // Resetting one device leaves the other.
  OK(cudaDeviceReset());
  CHECK(call(1) == 1);
  CHECK(call(0) == 5);
  OK(cudaGetLastError());
  std::puts("ok");
}
