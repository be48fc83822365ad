// An audit library (LD_AUDIT, see rtld-audit(7)): writes what a program asks of libcuda.so.1 into the file
// that REPLAY_TEST_ASKED names, a line each: `dlsym NAME`, or `NAME VERSION FLAGS` for cuGetProcAddress.
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*real1)(const char *, void **, int, uint64_t);
static int (*real2)(const char *, void **, int, uint64_t, int *);

static void note(const char *line, int length) {
  const char *path = getenv("REPLAY_TEST_ASKED");
  int file = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
  if (file < 0 || write(file, line, (size_t)length) != length)
    dprintf(2, "asked.c: cannot write what was asked\n");
  if (file >= 0)
    close(file);
}

static void note_resolved(const char *name, int version, uint64_t flags) {
  char line[256];
  if (name != NULL && name[0] != '\0')
    note(line, snprintf(line, sizeof line, "%.200s %d %d\n", name, version, (int)flags));
}

static int resolve1(const char *name, void **function, int version, uint64_t flags) {
  note_resolved(name, version, flags);
  int result = real1(name, function, version, flags);
  return result;
}

static int resolve2(const char *name, void **function, int version, uint64_t flags, int *status);

// The driver gives its resolver through itself, too.
static void replace(const char *name, void **function) {
  if (function == NULL || *function == NULL || name == NULL)
    return;
  if (*function == (void *)real1)
    *function = (void *)resolve1;
  else if (*function == (void *)real2)
    *function = (void *)resolve2;
}

static int resolve2(const char *name, void **function, int version, uint64_t flags, int *status) {
  note_resolved(name, version, flags);
  int result = real2(name, function, version, flags, status);
  if (result == 0)
    replace(name, function);
  return result;
}

unsigned la_version(unsigned version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie) {
  (void)space;
  const char *slash = strrchr(map->l_name, '/');
  *cookie = strncmp(slash != NULL ? slash + 1 : map->l_name, "libcuda.so", 10) == 0;
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to, unsigned *flags,
                       const char *name) {
  (void)index, (void)flags;
  if (!*to || *from || strncmp(name, "cu", 2) != 0)
    return symbol->st_value;
  char line[256];
  note(line, snprintf(line, sizeof line, "dlsym %.200s\n", name));
  if (strcmp(name, "cuGetProcAddress") == 0) {
    real1 = (void *)symbol->st_value;
    return (uintptr_t)resolve1;
  }
  if (strcmp(name, "cuGetProcAddress_v2") == 0) {
    real2 = (void *)symbol->st_value;
    return (uintptr_t)resolve2;
  }
  return symbol->st_value;
}
