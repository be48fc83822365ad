#define TILE 16

__constant__ float alpha = 1.0f;

// c = alpha * a * b; a is rows x inner, b is inner x columns. Pitches count floats.
extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, unsigned rows,
                                        unsigned inner, unsigned columns, unsigned a_pitch, unsigned b_pitch,
                                        unsigned c_pitch) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  unsigned row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (unsigned start = 0; start < inner; start += TILE) {
    unsigned a_column = start + threadIdx.x, b_row = start + threadIdx.y;
    a_tile[threadIdx.y][threadIdx.x] = row < rows && a_column < inner ? a[row * a_pitch + a_column] : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = b_row < inner && column < columns ? b[b_row * b_pitch + column] : 0.0f;
    __syncthreads();
    for (unsigned k = 0; k < TILE; k++)
      sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
    __syncthreads();
  }
  if (row < rows && column < columns)
    c[row * c_pitch + column] = alpha * sum;
}
