// covers: fork: a child of a process that used CUDA is refused, one that was made before works by itself.
#include "../check.cuh"

#include <sys/wait.h>
#include <unistd.h>

__global__ void square(int *data) { data[threadIdx.x] *= data[threadIdx.x]; }

void compute() {
  std::vector<int> values(32), expected(32);
  for (int i = 0; i < 32; i++) {
    values[i] = i - 9;
    expected[i] = (i - 9) * (i - 9);
  }
  Buffer<int> data(values);
  square<<<1, 32>>>(data);
  equal("squares", data.host(), expected);
}

int status_of(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main() {
  pid_t early = fork();
  REQUIRE(early >= 0);
  if (early == 0) {
    compute();
    _exit(0);
  }
  REQUIRE(status_of(early) == 0);
  compute();
  pid_t late = fork();
  REQUIRE(late >= 0);
  if (late == 0) {
    void *memory = nullptr;
    EXPECT(cudaMalloc(&memory, 64), cudaErrorInitializationError);
    _exit(0);
  }
  REQUIRE(status_of(late) == 0);
  compute();
  return ok();
}
