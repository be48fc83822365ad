// covers: __device__ variables: initial values, pointers between them, copies to and from symbols.
#include "../check.cuh"

struct Settings {
  int scale;
  double bias;
};
__device__ Settings settings = {3, 0.5};
__device__ int table[100];
__device__ int *cursor = &table[10];
__device__ int skipped;
__device__ unsigned long long calls;
static __device__ char greeting[] = "good day";

__global__ void apply() {
  if (threadIdx.x == 0)
    atomicAdd(&calls, 1ull);
  int i = threadIdx.x;
  cursor[skipped + i] = int(settings.scale * i + settings.bias * 4) + greeting[i % 8];
}

std::vector<int> expected_table(Settings values, int first, const char *text) {
  std::vector<int> expected(100);
  for (int i = 0; i < 50; i++)
    expected[first + i] = int(values.scale * i + values.bias * 4) + text[i % 8];
  return expected;
}

int main() {
  std::vector<int> got(100);
  apply<<<1, 50>>>();
  CHECK(cudaMemcpyFromSymbol(got.data(), table, sizeof(table)));
  equal("as it began", got, expected_table({3, 0.5}, 10, "good day"));

  size_t size = 0;
  CHECK(cudaGetSymbolSize(&size, table));
  REQUIRE(size == sizeof(table));
  CHECK(cudaGetSymbolSize(&size, settings));
  REQUIRE(size == sizeof(Settings));
  CHECK(cudaGetSymbolSize(&size, greeting));
  REQUIRE(size == 9);

  int *address = nullptr;
  CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&address), table));
  CHECK(cudaMemset(address, 0, sizeof(table)));
  const int fifteen = 15;
  CHECK(cudaMemcpyToSymbol(skipped, &fifteen, sizeof(fifteen)));
  const double bias = -6.25;
  CHECK(cudaMemcpyToSymbol(settings, &bias, sizeof(bias), offsetof(Settings, bias)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpyToSymbolAsync(greeting, "bye", 3, 0, cudaMemcpyHostToDevice, stream));
  apply<<<1, 50, 0, stream>>>();
  std::vector<int> part(30);
  CHECK(cudaMemcpyFromSymbolAsync(part.data(), table, 30 * sizeof(int), 20 * sizeof(int),
                                  cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  auto expected = expected_table({3, bias}, 25, "byed day");
  equal("a part", part, std::vector<int>(expected.begin() + 20, expected.begin() + 50));

  Buffer<int> other(100);
  CHECK(cudaMemcpyFromSymbol(other, table, sizeof(table), 0, cudaMemcpyDeviceToDevice));
  equal("on the device", other.host(), expected);
  unsigned long long made = 0;
  CHECK(cudaMemcpyFromSymbol(&made, calls, sizeof(made)));
  REQUIRE(made == 2);

  int nowhere = 0;
  EXPECT(cudaMemcpyToSymbol(nowhere, &made, 4), cudaErrorInvalidSymbol);
  EXPECT(cudaGetLastError(), cudaErrorInvalidSymbol);
  CHECK(cudaStreamDestroy(stream));
  return ok();
}
