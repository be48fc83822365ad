// The files of a capture.
#pragma once

#include "base/base.h"

#include <limits.h>
#include <sys/stat.h>

struct file {
  atomic_int descriptor; // -1: none
  dev_t device;
  ino_t inode;
  char *path; // absolute
};
#define NO_FILE {-1, 0, 0, NULL}

// All answer false (NULL) with errno set when it cannot be done; none raises a signal.
bool create_file(struct file *file, const char *path); // errno EEXIST: choose another name
bool write_file(struct file *file, uint64_t offset, const void *data, size_t bytes);
void *map_file(struct file *file, uint64_t offset, size_t bytes);
void close_file(struct file *file);

// False, with errno: it is too long.
bool path_in(char path[PATH_MAX], const char *directory, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// STEM.<pid>.bin beside this process's calls.<pid>.bin (writer.c).
bool create_beside_calls(struct file *file, const char *stem);
