// covers: Two devices: current device, memory and kernels on each, peer access and copies between them.
// environment: REPLAY_EMULATOR_DEVICES=2
#include "../check.cuh"

__device__ int local_offset;

__global__ void add(int *out, const int *in) { out[threadIdx.x] = in[threadIdx.x] + local_offset; }

int main() {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  REQUIRE(devices == 2);
  const int count = 128;
  const size_t bytes = count * sizeof(int);
  auto values = random_values<short>(count);
  std::vector<int> start(values.begin(), values.end());
  int *memory[2];
  for (int device = 0; device < 2; device++) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory[device], bytes));
    const int offset = 1000 * (device + 1);
    CHECK(cudaMemcpyToSymbol(local_offset, &offset, sizeof(offset)));
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, memory[device]));
    REQUIRE(attributes.type == cudaMemoryTypeDevice && attributes.device == device);
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(memory[0], start.data(), bytes, cudaMemcpyHostToDevice));
  add<<<1, count>>>(memory[0], memory[0]);
  CHECK(cudaMemcpyPeer(memory[1], 1, memory[0], 0, bytes));
  CHECK(cudaSetDevice(1));
  add<<<1, count>>>(memory[1], memory[1]);
  std::vector<int> got(count), expected = start;
  CHECK(cudaMemcpy(got.data(), memory[1], bytes, cudaMemcpyDeviceToHost));
  for (int &value : expected)
    value += 3000;
  equal("through both", got, expected);

  int possible = 0;
  CHECK(cudaDeviceCanAccessPeer(&possible, 1, 0));
  if (possible) {
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    EXPECT(cudaDeviceEnablePeerAccess(0, 0), cudaErrorPeerAccessAlreadyEnabled);
    EXPECT(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
    add<<<1, count>>>(memory[1], memory[0]);
    CHECK(cudaMemcpy(got.data(), memory[1], bytes, cudaMemcpyDeviceToHost));
    equal("read from the peer", got, expected);
    CHECK(cudaDeviceDisablePeerAccess(0));
  }
  for (int *pointer : memory)
    CHECK(cudaFree(pointer));
  return ok();
}
