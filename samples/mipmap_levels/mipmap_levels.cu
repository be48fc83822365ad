// Adds up what a texture holds at one place of the picture in each of its mipmap levels.
extern "C" __global__ void add_levels(cudaTextureObject_t texture, float *sums, unsigned side,
                                      unsigned levels) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (unsigned level = 0; level < levels; level++)
    sum += tex2DLod<float>(texture, (x + 0.5f) / side, (y + 0.5f) / side, level);
  sums[y * side + x] += sum;
}
