#include <stdio.h>
#include <stdlib.h>

int next_calls(void);
const char *next_home(const char *symbol);

int main(int count, char **words) {
  int (*volatile convert)(const char *) = atoi; // a call that the compiler cannot replace
  int value = convert(words[1]);
  printf("value %d\ncalls %d\natoi %s\n", value, next_calls(), next_home("atoi"));
  return 0;
}
