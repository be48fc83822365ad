// The shim that is preloaded into an application (LD_PRELOAD) and records its driver calls.
//
// Rules of everything in this folder (PRESERVE):
// - The application sees what it would have seen: same results, same errors, same order. When capture fails,
//   it stops with a recorded reason, and every call passes through.
// - Nothing happens before the first driver call: no constructor, no threads, no signal handlers. One
// exception: when
//   a program loads libcuda.so.1, the stand-in (stand_in/) tells the shim where its functions are.
// - What is preloaded exports no name of the driver. A preloaded name comes before a program's own: before a
//   variable named cuInit, say, into which the program then stores.
// - No lock is held across a call of the real driver. The gate (memory/gate.c) is not a lock: waiting there
//   is bounded.
// - Nothing but libc. Prototypes are ABI-level and come from the table; no CUDA header is included.
// - errno is left as the driver left it.
#pragma once

// How a call gets here, and what it is.
#include "driver/real.h"
#include "entry/process.h"
// The one path that every recorded call takes.
#include "arguments/arguments.h"
#include "base/bytes.h"
#include "base/privacy.h"
#include "base/selection.h"
#include "call/call.h"
#include "call/exceptions.h"
#include "driver/ask.h"
#include "graph/graph.h"
#include "objects/contexts.h"
#include "objects/stream_capture.h"
#include "record/encode.h"
#include "record/image.h"
#include "record/process.h"
// Whether it is recorded.
#include "objects/array_handles.h"
#include "objects/kernels.h"
#include "objects/modules.h"
#include "selection/selection.h"
// The memory that it reaches.
#include "memory/arrays.h"
#include "memory/blocks.h"
#include "memory/contents.h"
#include "memory/gate.h"
#include "memory/hints.h"
#include "memory/memory.h"
#include "memory/physical.h"
#include "memory/reach.h"
#include "memory/tensor_maps.h"
#include "memory/textures.h"
// The files that all of it goes to.
#include "record/writer.h"
