// Loads the driver, starts it, asks for devices and unloads it, three times; then the same in a forked child.
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int start(const char *who) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL)
    return puts("no driver"), 1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*count_devices)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
  int count = -1, started = init(0), counted = count_devices(&count);
  printf("%s: %d, %d, %d devices; ", who, started, counted, count);
  printf("closed %d\n", dlclose(driver));
  return fflush(stdout);
}

int main(void) {
  for (int round = 0; round < 3; round++)
    start("parent");
  if (fork() == 0)
    _exit(start("child"));
  int status = 0;
  wait(&status);
  printf("status %d\n", status);
  return 0;
}
