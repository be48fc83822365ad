// Module images.
#pragma once

#include "record/call.h"

// Attaches a module image of any form as part 0, and the prelinked containers of relocatable code as further
// parts.
void attach_image(struct call *call, unsigned parameter, const void *image);
// Whether the image of a file that was unmapped or changed since is in memory as it was.
bool image_is_still_there(const void *image, uint64_t bytes, uint32_t check);
