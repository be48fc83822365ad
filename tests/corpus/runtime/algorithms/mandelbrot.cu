// covers: Iteration counts of the Mandelbrot set: loops that end at different times in the lanes of a warp.
// options: -fmad=false -Xcompiler -ffp-contract=off
#include "../check.cuh"

template <class T> __host__ __device__ int iterations(int x, int y, int width, int height) {
  T a = (T)x / width * 3 - 2, b = (T)y / height * 2 - 1, u = 0, v = 0;
  int n = 0;
  while (n < 200 && u * u + v * v < 4) {
    T next = u * u - v * v + a;
    v = 2 * u * v + b, u = next, n++;
  }
  return n;
}

template <class T> __global__ void draw(unsigned char *out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[y * width + x] = (unsigned char)iterations<T>(x, y, width, height);
}

template <class T> void test(const char *name) {
  const int width = 150, height = 100;
  Buffer<unsigned char> out(width * height);
  draw<T><<<dim3(10, 13), dim3(16, 8)>>>(out, width, height);
  std::vector<unsigned char> expected(width * height);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      expected[y * width + x] = (unsigned char)iterations<T>(x, y, width, height);
  equal(name, out.host(), expected);
}

int main() {
  test<float>("float"), test<double>("double");
  return ok();
}
