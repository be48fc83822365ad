// Asks whoever started the capture, by a socket in its folder: for the names of the variables in an image,
// and to keep memory that it shares with this process (replay/capture/variables.py).
#include "objects/objects.h"

#include "driver/real.h"
#include "record/encode.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_ANSWER_BYTES = 4 << 20, PATIENCE_S = 20 };

static ZERO_IN_CHILD bool launcher_is_silent; // it did not answer in time once, so it is not waited for again

// What is sent, followed by `data_bytes` bytes: replay/capture/variables.py.
struct question {
  char magic[8];
  uint32_t version, storage, architecture, data_bytes;
  uint64_t offset, length;
  uint32_t check, kernel_bytes; // of the name that follows the data; 0: variables are asked for
};
_Static_assert(sizeof(struct question) == 48, "variables.py");
enum { QUESTION_VERSION = 1, ANSWERED = 0 }; // others: the image cannot be read, or says nothing

struct answer {
  uint32_t state, bytes;
};

static bool transfer(int socket, void *data, size_t bytes, bool sending) {
  uint8_t *at = data;
  while (bytes > 0) {
    ssize_t done = sending ? send(socket, at, bytes, MSG_NOSIGNAL) : recv(socket, at, bytes, 0);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      launcher_is_silent = true;
    if (done <= 0)
      return false;
    at += done;
    bytes -= (size_t)done;
  }
  return true;
}

static int connect_to_launcher(void) {
  // A path in a sockaddr is short, so the folder is named through its descriptor.
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int folder = launcher_is_silent ? -1 : open_capture_folder();
  if (folder < 0)
    return -1;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" VARIABLES_SOCKET, folder);
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval patience = {.tv_sec = PATIENCE_S};
  if (descriptor >= 0 && (setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
                          setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
                          connect(descriptor, (struct sockaddr *)&address, sizeof address) != 0)) {
    launcher_is_silent = errno == EAGAIN;
    close(descriptor);
    descriptor = -1;
  }
  close(folder);
  return descriptor;
}

char *variable_names(const struct attachment *part, const char *kernel, uint32_t *bytes) {
  const char *blobs = blobs_file_name();
  bool in_blobs = part->storage == STORAGE_BLOB;
  struct question question = {
      .magic = "RCAPVARS",
      .version = QUESTION_VERSION,
      .storage = part->storage,
      .architecture = current_architecture(),
      .data_bytes = in_blobs ? (uint32_t)strlen(blobs) : part->data_bytes,
      .offset = part->offset,
      .length = part->length,
      .check = part->check,
      .kernel_bytes = kernel != NULL ? (uint32_t)strlen(kernel) : 0,
  };
  struct answer answer;
  char *names = NULL;
  int descriptor = connect_to_launcher();
  if (descriptor >= 0 && transfer(descriptor, &question, sizeof question, true) &&
      transfer(descriptor, (void *)(uintptr_t)(in_blobs ? blobs : part->data), question.data_bytes, true) &&
      transfer(descriptor, (void *)(uintptr_t)kernel, question.kernel_bytes, true) &&
      transfer(descriptor, &answer, sizeof answer, false)) {
    if (answer.state == ANSWERED && answer.bytes <= MAX_ANSWER_BYTES)
      names = malloc(answer.bytes + 1);
    if (names != NULL && !transfer(descriptor, names, answer.bytes, false)) {
      free(names);
      names = NULL;
    }
  }
  if (names != NULL) {
    names[answer.bytes] = '\0';
    *bytes = answer.bytes;
  }
  if (descriptor >= 0)
    close(descriptor);
  return names;
}

bool launcher_keeps(int memory) {
  const char *blobs = blobs_file_name();
  struct question question = {
      .magic = "RCAPRING", .version = QUESTION_VERSION, .data_bytes = (uint32_t)strlen(blobs)};
  union {
    struct cmsghdr header;
    uint8_t bytes[CMSG_SPACE(sizeof memory)];
  } control = {.header = {CMSG_LEN(sizeof memory), SOL_SOCKET, SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &memory, sizeof memory);
  struct msghdr message = {.msg_iov = &(struct iovec){&question, sizeof question},
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control};
  struct answer answer;
  int descriptor = connect_to_launcher();
  bool kept = descriptor >= 0 && sendmsg(descriptor, &message, MSG_NOSIGNAL) == sizeof question &&
              transfer(descriptor, (void *)(uintptr_t)blobs, question.data_bytes, true) &&
              transfer(descriptor, &answer, sizeof answer, false) && answer.state == ANSWERED;
  if (descriptor >= 0)
    close(descriptor);
  return kept;
}
