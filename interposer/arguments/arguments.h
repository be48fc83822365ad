// What of calls the generic path (record/encode.c) cannot follow: arguments whose meaning depends on one
// another, structures with pointers, and the memory that all of them name.
#pragma once

#include "record/call.h"

void pack_launch_parameters(struct call *call);
// The parameter buffer that `extra` of a launch names, and its length; NULL when there is none, or a longer
// one than a kernel can take.
const void *extra_buffer(const uint64_t *words, uint64_t *bytes);
// The values of kernelParams by the kernel's layout, which is known. False: they are not all there.
bool pack_values(const struct kernel *kernel, const uint64_t *values, uint8_t *packed);
void launch_is_described(const struct call *call); // its ENTER is on file
// Address ranges that a copy whose effect is CUSTOM may touch; count 0 to 2. Address 0: nothing to touch.
struct span {
  uint64_t address, bytes;
};
unsigned copy_spans(const struct call *call, struct span spans[2]);
// Likewise the one of that number of a batch. False: no more.
bool batch_span(const struct call *call, uint64_t number, struct span *span);
union CUstreamBatchMemOpParams;
struct span operation_span(const union CUstreamBatchMemOpParams *given); // address 0: it waits for none
struct copy_3d_span {
  struct span source, destination; // bytes 0: an array
  bool host_source;                // `source` is memory of the host, or may be
};
struct CUDA_MEMCPY3D;
struct copy_3d_span spans_of_3d(const struct CUDA_MEMCPY3D *copy);

// ---- what rows of the table name (columns enter and leave) ---------------------------------------

// `enter` runs before the driver is called, `leave` when it has succeeded; both may attach more than the
// generic path.

// launch.c
void launch_enter(struct call *call);

// copy.c
void rectangle_enter(struct call *call); // cuMemcpy2D and 3D
void rectangle_leave(struct call *call);
void copy_enter(struct call *call); // cuMemcpy
void copy_leave(struct call *call);
void batch_enter(struct call *call);

// objects.c
void load_file_enter(struct call *call);
void variable_leave(struct call *call); // cuModuleGetGlobal and its like
void import_leave(struct call *call);   // EFFECT_IMPORT

void array_leave(struct call *call); // after an array was made
void tensor_map_enter(struct call *call);
