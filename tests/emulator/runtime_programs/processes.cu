// Memory of one process, used by another, which this program starts before it uses CUDA.
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *memory, int value) { atomicAdd(memory, value); }

static int other_process(int from, int to) {
  cudaIpcMemHandle_t handle;
  CHECK(read(from, &handle, sizeof handle) == sizeof handle);
  int *memory, value;
  OK(cudaIpcOpenMemHandle(reinterpret_cast<void **>(&memory), handle, cudaIpcMemLazyEnablePeerAccess));
  OK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 40);
  add<<<1, 1>>>(memory, 2);
  OK(cudaDeviceSynchronize());
  OK(cudaIpcCloseMemHandle(memory));
  CHECK(write(to, "x", 1) == 1);
  return 0;
}

int main() {
  int there[2], back[2];
  CHECK(pipe(there) == 0 && pipe(back) == 0);
  pid_t child = fork();
  if (child == 0)
    return other_process(there[0], back[1]);
  int *memory, forty = 40, value = 0;
  cudaIpcMemHandle_t handle;
  OK(cudaMalloc(&memory, sizeof *memory));
  OK(cudaMemcpy(memory, &forty, sizeof forty, cudaMemcpyHostToDevice));
  OK(cudaIpcGetMemHandle(&handle, memory));
  CHECK(write(there[1], &handle, sizeof handle) == sizeof handle);
  close(back[1]);
  char done;
  CHECK(read(back[0], &done, 1) == 1);
  OK(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 42);
  int status;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::puts("ok");
}
