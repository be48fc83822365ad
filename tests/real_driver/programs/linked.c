// Linked with libcuda.so.1: the loader finds its functions, at once or at the first call.
#include <stdio.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);

int main(void) {
  int count = -1, started = cuInit(0), counted = cuDeviceGetCount(&count);
  printf("%d, %d, %d devices\n", started, counted, count);
  return started;
}
