// The named exceptions to the generic path, by family. `enter` runs before the driver is called, `leave` when
// it has succeeded; both may attach what the generic path cannot follow.
#pragma once

#include "shim.h"

// launch.c
void launch_enter(struct call *call);

// old_launch.c
void pack_old_launch(struct call *call);   // the parameters, where pack_launch_parameters puts them
void attach_old_launch(struct call *call); // and the geometry

// copy.c
void rectangle_enter(struct call *call); // cuMemcpy2D and 3D
void rectangle_leave(struct call *call);
void copy_enter(struct call *call); // cuMemcpy
void copy_leave(struct call *call);
struct copy_3d_span {
  struct span source, destination; // bytes 0: an array
  bool host_source;                // `source` is memory of the host, or may be
};
struct copy_3d_span spans_of_3d(const void *copy); // CUDA_MEMCPY3D

// graph/executable.c, graph/launch.c
void graph_enter(struct call *call);
void graph_launch_enter(struct call *call);

// batch.c
void batch_enter(struct call *call);

// module.c
void load_file_enter(struct call *call);
void variable_leave(struct call *call); // cuModuleGetGlobal and its like
void context_enter(struct call *call);
void import_leave(struct call *call); // EFFECT_IMPORT

// array.c
void array_leave(struct call *call); // after an array was made
void tensor_map_enter(struct call *call);
unsigned array_copy_spans(const struct call *call, struct span spans[2]);
