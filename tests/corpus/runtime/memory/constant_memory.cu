// covers: __constant__ arrays: initial values, changed between launches and in part, read by index.
#include "../check.cuh"

#include <algorithm>

__constant__ float coefficients[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
struct Plane {
  short2 normal;
  double offset;
  unsigned char label;
};
__constant__ Plane planes[3];

__global__ void filter(const float *in, float *out, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  float sum = 0;
  for (int k = 0; k < 5; k++)
    sum = fmaf(coefficients[k], in[min(max(i + k - 2, 0), count - 1)], sum);
  out[i] = sum;
}

__global__ void classify(const short2 *points, unsigned char *labels, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count)
    return;
  const Plane &plane = planes[i % 3];
  int distance = plane.normal.x * points[i].x + plane.normal.y * points[i].y;
  labels[i] = distance > plane.offset ? plane.label : 0;
}

std::vector<float> filtered(const std::vector<float> &in, const float *weights) {
  std::vector<float> out;
  const int last = int(in.size()) - 1;
  for (int i = 0; i <= last; i++) {
    float sum = 0;
    for (int k = 0; k < 5; k++)
      sum = std::fma(weights[k], in[std::min(std::max(i + k - 2, 0), last)], sum);
    out.push_back(sum);
  }
  return out;
}

int main() {
  const int count = 3000;
  auto signal = random_values<float>(count);
  Buffer<float> in(signal), out(count);
  float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
  filter<<<24, 128>>>(in, out, count);
  equal("initial", out.host(), filtered(signal, weights));
  weights[3] = -1.5f;
  weights[4] = 0.3f;
  CHECK(cudaMemcpyToSymbol(coefficients, &weights[3], 2 * sizeof(float), 3 * sizeof(float)));
  filter<<<24, 128>>>(in, out, count);
  equal("changed", out.host(), filtered(signal, weights));

  const Plane host_planes[3] = {{{1, 0}, 100.5, 7}, {{-2, 3}, -1e4, 200}, {{5, 5}, 0, 31}};
  CHECK(cudaMemcpyToSymbol(planes, host_planes, sizeof(host_planes)));
  auto numbers = random_values<short>(2 * count, 2);
  Buffer<short> points(numbers);
  Buffer<unsigned char> labels(count);
  classify<<<12, 256>>>(reinterpret_cast<short2 *>(points.data), labels, count);
  std::vector<unsigned char> expected;
  for (int i = 0; i < count; i++) {
    const Plane &plane = host_planes[i % 3];
    int distance = plane.normal.x * numbers[2 * i] + plane.normal.y * numbers[2 * i + 1];
    expected.push_back(distance > plane.offset ? plane.label : 0);
  }
  equal("labels", labels.host(), expected);
  return ok();
}
