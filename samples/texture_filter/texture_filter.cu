// Each texel becomes the mean of the four around its corner, which the texture unit makes, and is stirred a
// little. What is read through a texture is written through a surface of the other array.
extern "C" __global__ void filter(cudaTextureObject_t from, cudaSurfaceObject_t to, unsigned width,
                                  unsigned height, unsigned step) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height)
    return;
  // Texel centres lie at .5, so this is the corner between four of them.
  float mean = tex2D<float>(from, x + 1.0f, y + 1.0f);
  unsigned stirred = ((unsigned)mean + (x ^ y) * step) & 255;
  surf2Dwrite((float)stirred, to, x * 4, y);
}
