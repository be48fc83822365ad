// covers: recursive device functions, and calls through pointers in constant memory and from the host.
#include "../check.cuh"

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
  if (m == 0)
    return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

// Queens on `row` and those after it, in columns that are still free.
__host__ __device__ __noinline__ int queens(int size, int row, unsigned columns, unsigned up, unsigned down) {
  if (row == size)
    return 1;
  int found = 0;
  for (int column = 0; column < size; column++) {
    unsigned a = 1u << column, b = 1u << (row + column), c = 1u << (row - column + size);
    if (!(columns & a) && !(up & b) && !(down & c))
      found += queens(size, row + 1, columns | a, up | b, down | c);
  }
  return found;
}

__global__ void recurse(unsigned *out, int *solutions) {
  int i = threadIdx.x;
  out[i] = ackermann(i % 3, i / 3); // lanes recurse to depths of their own
  solutions[i] = queens(i % 6 + 1, 0, 0, 0, 0);
}

typedef int (*Operation)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ int larger(int a, int b) { return a > b ? a : b; }

__constant__ Operation table[4] = {add, subtract, multiply, larger};
__device__ Operation chosen = subtract;

__global__ void through_table(const int *a, const int *b, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = table[(a[i] ^ b[i]) & 3](a[i], b[i]);
}

__global__ void through_argument(Operation operation, const int *a, const int *b, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = operation(a[i], b[i]);
}

int main() {
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16 << 10));
  Buffer<unsigned> values(33);
  Buffer<int> solutions(33);
  recurse<<<1, 33>>>(values, solutions);
  CHECK(cudaDeviceSynchronize());
  std::vector<unsigned> expected(33);
  std::vector<int> expected_solutions(33);
  for (unsigned i = 0; i < 33; i++) {
    unsigned n = i / 3;
    expected[i] = i % 3 == 0 ? n + 1 : i % 3 == 1 ? n + 2 : 2 * n + 3;
    expected_solutions[i] = queens(i % 6 + 1, 0, 0, 0, 0);
  }
  equal("ackermann", values.host(), expected);
  equal("queens", solutions.host(), expected_solutions);

  const int count = 512;
  auto x = random_values<int>(count, 1), y = random_values<int>(count, 2);
  for (int i = 0; i < count; i++)
    x[i] %= 30000, y[i] %= 30000;
  Buffer<int> a(x), b(y), out(count);
  through_table<<<4, 128>>>(a, b, out);
  std::vector<int> results(count), differences(count);
  for (int i = 0; i < count; i++) {
    int all[] = {x[i] + y[i], x[i] - y[i], x[i] * y[i], std::max(x[i], y[i])};
    results[i] = all[(x[i] ^ y[i]) & 3], differences[i] = all[1];
  }
  equal("through the table", out.host(), results);
  Operation operation;
  CHECK(cudaMemcpyFromSymbol(&operation, chosen, sizeof(operation)));
  through_argument<<<4, 128>>>(operation, a, b, out);
  equal("through an argument", out.host(), differences);
  return ok();
}
