// The files of a capture.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

// `incomplete` exists and this process holds its share of the lock.
bool hold_directory(struct file *file, const char *directory);
// The last process to release it renames it `complete`.
void release_directory(struct file *file, const char *directory);

// STEM.<pid>.bin beside this process's calls.<pid>.bin (writer.c).
bool create_beside_calls(struct file *file, const char *stem);
