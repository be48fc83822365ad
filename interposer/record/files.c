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

// Takes over `descriptor`; gives the one to use.
static int moved_high(int descriptor) {
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
  if (high >= 0)
    close(descriptor);
  return high >= 0 ? high : descriptor;
}

// Moved high, with the identity noted. Takes over `descriptor`.
static bool keep_file(struct file *file, int descriptor, const char *path) {
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

static struct file *held;       // with the lock that says that this process is writing
static char complete[PATH_MAX]; // its name when nobody is
static void hold_again(void);

static bool at_hand(struct file *file) {
  if (LIKELY(file_is_ours(file)))
    return true;
  if (open_again(file)) {
    if (held != NULL && held->path != NULL && file != held && !file_is_ours(held))
      hold_again();
    return true;
  }
  errno = EBADF;
  return false;
}

bool create_file(struct file *file, const char *path) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return descriptor >= 0 && keep_file(file, descriptor, path);
}

// Never blocks for long: others hold the exclusive lock only while they look whether they are the last.
static bool lock_soon(const struct file *file, int kind) {
  for (int attempt = 0; attempt < 5; attempt++) {
    if (flock(file->descriptor, kind | LOCK_NB) == 0)
      return true;
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  }
  return false;
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

bool hold_directory(struct file *file, const char *directory) {
  char incomplete[PATH_MAX];
  if (!path_in(incomplete, directory, "incomplete") || !path_in(complete, directory, "complete"))
    return false;
  // An earlier process of the same application ended cleanly; now there is another one.
  rename(complete, incomplete);
  int descriptor = open(incomplete, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0 || !keep_file(file, descriptor, incomplete))
    return false;
  lock_soon(file, LOCK_SH);
  held = file;
  return true;
}

// The lock ended with the descriptor, so another process may have taken itself for the last one.
static void hold_again(void) {
  rename(complete, held->path);
  if (open_again(held))
    lock_soon(held, LOCK_SH);
}

void release_directory(struct file *file) {
  // Whoever gets the exclusive lock is the last one.
  held = NULL;
  if (at_hand(file) && lock_soon(file, LOCK_EX))
    rename(file->path, complete);
  close_file(file);
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
