// Illegal accesses by line. PTX: nvcc -ptx -arch=compute_80 -lineinfo faults.cu
__device__ __forceinline__ void poke(int *p, int i) {
  p[i] = 1; // line 3
}
extern "C" __global__ void past(int *p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    p[i] = 2; // line 8
}
extern "C" __global__ void inlined(int *p, int i) {
  poke(p, i); // line 11
}
template <typename T> __global__ void typed(T *p) {
  *p = 3; // line 14
}
template __global__ void typed<double>(double *);
