// The names of the variables in a module's image (variable_names.c).
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Where an image is, as its attachment says; `data` holds it (STORAGE_INLINE) or the reference to its file.
struct image_part {
  uint8_t storage;
  uint64_t offset, length;
  uint32_t check, data_bytes;
  uint8_t *data;
  const void *mapped; // STORAGE_FILE
};

// Names of the variables of one part, each with its NUL; NULL: not known. is_gone: its file is.
char *variable_names(const struct image_part *part, uint32_t *bytes, bool *is_gone);
// The file of an image is gone or changed, but it is loaded still: from now on it is in the blobs file.
bool rescue_image(struct image_part *part);
