// The files of a capture: who may write them, how they grow, and what happens when they cannot.
//
// The application may close our descriptors (daemons close them all) and open files of its own under the same
// numbers, so each use of a descriptor first looks whether it still is the file that was opened, and opens
// that again where it is not.
#include "record/files.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 200 }; // out of the way of programs that expect small numbers

// Takes over `descriptor`; gives the one to use. The lock says that this process may still write.
static int moved_high(int descriptor) {
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
  if (high >= 0)
    close(descriptor);
  flock(high >= 0 ? high : descriptor, LOCK_SH | LOCK_NB);
  return high >= 0 ? high : descriptor;
}

static bool is_this_file(const struct file *file, int descriptor) {
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == file->device &&
         status.st_ino == file->inode;
}

static bool file_is_ours(const struct file *file) { return is_this_file(file, file->descriptor); }

void close_file(struct file *file) {
  if (file_is_ours(file))
    close(file->descriptor);
  file->descriptor = -1;
  free(file->path);
  file->path = NULL;
}

// Several threads may find it closed at once: the first one's is used.
static bool open_again(struct file *file) {
  int before = file->descriptor;
  if (before < 0 || file->path == NULL)
    return false;
  int descriptor = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0)
    return false;
  descriptor = moved_high(descriptor);
  if (!is_this_file(file, descriptor)) { // it was removed, and another one has its name
    close(descriptor);
    return false;
  }
  if (!atomic_compare_exchange_strong(&file->descriptor, &before, descriptor))
    close(descriptor);
  return file_is_ours(file);
}

static bool at_hand(struct file *file) {
  if (LIKELY(file_is_ours(file)) || open_again(file))
    return true;
  errno = EBADF;
  return false;
}

bool create_file(struct file *file, const char *path) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0)
    return false;
  descriptor = moved_high(descriptor);
  struct stat status;
  char *copy = strdup(path);
  if (copy == NULL || fstat(descriptor, &status) != 0) {
    free(copy);
    close(descriptor);
    return false;
  }
  *file = (struct file){descriptor, status.st_dev, status.st_ino, copy};
  return true;
}

bool path_in(char path[PATH_MAX], const char *directory, const char *format, ...) {
  char name[64];
  va_list values;
  va_start(values, format);
  vsnprintf(name, sizeof name, format, values);
  va_end(values);
  if ((size_t)snprintf(path, PATH_MAX, "%s/%s", directory, name) < PATH_MAX)
    return true;
  errno = ENAMETOOLONG;
  return false;
}

// Growing beyond the limit would raise SIGXFSZ in the application.
static bool within_size_limit(uint64_t end) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  return true;
}

// Of one call. The kernel takes memory for its page cache in blocks as large as what is written: small ones
// it has at hand, large ones cost more than copying into them.
enum { WRITE_BYTES = 128 << 10 };

bool write_file(struct file *file, uint64_t offset, const void *data, size_t bytes) {
  if (!at_hand(file) || !within_size_limit(offset + bytes))
    return false;
  const uint8_t *from = data;
  while (bytes > 0) {
    ssize_t done = pwrite(file->descriptor, from, bytes < WRITE_BYTES ? bytes : WRITE_BYTES, (off_t)offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0) {
      if (done == 0)
        errno = ENOSPC;
      return false;
    }
    from += done;
    offset += (uint64_t)done;
    bytes -= (size_t)done;
  }
  return true;
}

void *map_file(struct file *file, uint64_t offset, size_t bytes) {
  if (!at_hand(file) || !within_size_limit(offset + bytes))
    return NULL;
  // Real blocks, never a hole: a full disk would be a SIGBUS at a later store.
  int failed;
  while ((failed = fallocate(file->descriptor, 0, (off_t)offset, (off_t)bytes)) != 0 && errno == EINTR) {
  }
  if (failed != 0) {
    if (errno != EOPNOTSUPP && errno != ENOSYS)
      return NULL;
    static const uint8_t zeros[65536];
    for (size_t done = 0; done < bytes; done += sizeof zeros)
      if (!write_file(file, offset + done, zeros, bytes - done < sizeof zeros ? bytes - done : sizeof zeros))
        return NULL;
  }
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor, (off_t)offset);
  return mapped == MAP_FAILED ? NULL : mapped;
}
