// What of the user's is not written: the home folder, and values in command lines that look like secrets. As
// in replay/privacy.py, which has the finer rules and goes over the same text again; here more is taken for a
// secret.
#define _GNU_SOURCE
#include "base/privacy.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char removed[] = "[removed]";

// The home folder of whoever packs reads these paths again, so it is told, not guessed from this environment.
size_t without_home(char *path) {
  const char *home = getenv("REPLAY_CAPTURE_HOME");
  size_t length = strlen(path), prefix = home != NULL ? strlen(home) : 0;
  if (prefix < 2 || strncmp(path, home, prefix) != 0 || (path[prefix] != '/' && path[prefix] != '\0'))
    return length;
  path[0] = '~';
  memmove(path + 1, path + prefix, length - prefix + 1);
  return length - prefix + 1;
}

static bool names_secret(const char *word, size_t length) {
  static const char *const parts[] = {"token",  "secret", "passw", "passphrase", "pwd",   "credential",
                                      "apikey", "-key",   "_key",  "auth",       "cookie"};
  for (size_t at = 0; at < length; at++)
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++)
      if (strlen(parts[n]) <= length - at && strncasecmp(word + at, parts[n], strlen(parts[n])) == 0)
        return true;
  return false;
}

// Appends what there is room for.
static void append(char *to, size_t room, const char *bytes, size_t length) {
  size_t used = strlen(to), left = room - used - 1;
  memcpy(to + used, bytes, length < left ? length : left);
  to[used + (length < left ? length : left)] = '\0';
}

// words: each ends with a zero byte, as in /proc/self/cmdline. to: one line.
void private_command(char *to, size_t room, const char *words, size_t length) {
  bool keep = getenv("REPLAY_CAPTURE_KEEP_COMMAND_LINE") != NULL, hide = false;
  to[0] = '\0';
  for (size_t at = 0, bytes; at < length; at += bytes + 1) {
    const char *word = words + at;
    bytes = strnlen(word, length - at);
    const char *equals = memchr(word, '=', bytes);
    size_t name = equals != NULL ? (size_t)(equals + 1 - word) : bytes;
    bool secret = !keep && names_secret(word, name);
    bool address = !keep && memmem(word, bytes, "://", 3) != NULL && memchr(word, '@', bytes) != NULL;
    if (at > 0)
      append(to, room, " ", 1);
    if (hide || address) {
      append(to, room, removed, sizeof removed - 1);
    } else if (secret && equals != NULL) {
      append(to, room, word, name);
      append(to, room, removed, sizeof removed - 1);
    } else {
      size_t head = equals != NULL ? name : 0, begin = strlen(to) + head;
      append(to, room, word, bytes);
      if (!keep && begin < strlen(to))
        without_home(to + begin);
    }
    hide = !hide && secret && equals == NULL && word[0] == '-';
  }
  for (char *at = to; *at != '\0'; at++)
    if (*at == '\n')
      *at = ' ';
}
