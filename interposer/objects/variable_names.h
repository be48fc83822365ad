// The names of the variables in a module's image (variable_names.c).
#pragma once

#include "record/call.h"

// Names of the variables of one part, each with its NUL; NULL: not known. is_gone: its file is.
char *variable_names(const struct attachment *part, uint32_t *bytes, bool *is_gone);
// The file of an image is gone or changed, but it is loaded still: from now on it is in the blobs file.
bool rescue_image(struct attachment *part);
