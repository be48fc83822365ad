// The objects of the application: contexts, kernels, modules, and calls that go into a stream capture.
#pragma once

#include "base/selection.h"
#include "record/call.h"

// ---- contexts -----------------------------------------------------------------------------------

void note_contexts(const struct call *call); // after a successful call
// The one whose memory ends with this END_OF_CONTEXT; 0: none.
uint64_t context_that_ends(const struct call *call);

// ---- kernels ------------------------------------------------------------------------------------

enum { KERNEL_NEW, KERNEL_MATCHES, KERNEL_OTHER };

struct kernel {
  uint64_t handle, owner, context;
  char *name;         // "" when unknown
  bool is_kernel;     // CUkernel, not CUfunction
  bool is_enumerated; // no recorded call has its name
  bool layout_asked;
  uint64_t variables_context; // the last context in which its module's variables were wanted
  // The last windows that have its name and attributes, and its layout. Set when the record that holds them
  // is on file: several threads may write them, none goes on without.
  _Atomic uint32_t described_window, layout_window;
  int32_t parameter_count; // -1: unknown
  uint32_t parameter_bytes;
  uint32_t *layout;           // parameter_count pairs of offset and size
  _Atomic uint32_t list_name; // window/launches.c
  char *types;                // element_types_of
  uint32_t types_bytes;
  atomic_bool types_asked;
};

// False: a launch of this handle is of no interest while the window is closed.
bool launch_matters(struct thread *thread, uint64_t handle);
// The CUkernel of a library that a function was made of, which nobody asked for; 0: none is known.
uint64_t library_kernel_of(const struct kernel *kernel);
// Never NULL. Asks the driver when no recorded call created it.
struct kernel *kernel_of_handle(uint64_t handle);
bool kernel_matches(struct kernel *kernel);
void match_kernels_anew(void); // the selection has changed
void ask_layout(struct kernel *kernel);
enum { KERNEL_ATTRIBUTES = 10 }; // CUfunction_attribute 0 to 9, which every driver since CUDA 11 answers
// What the driver says of the compiled kernel: pairs of attribute and value. Returns how many pairs.
size_t ask_attributes(const struct kernel *kernel, int32_t pairs[2 * KERNEL_ATTRIBUTES]);
void note_kernels(const struct call *call); // after a successful call that makes or ends handles
void forget_kernels_of_context(uint64_t context);

// ---- modules and libraries, and their variables that no call named ------------------------------

void keep_image(struct call *call); // when ENTER is written: where the image is that the call loads
void note_modules(struct call *call, int result);
// Those of its module, before a launch: of a CUkernel in this context, of a CUfunction in its own. Takes no
// time when they are known.
void want_variables(struct kernel *kernel, uint64_t context);
void want_variables_of_launch(const struct call *call);
bool variables_are_wanted(void);
void ask_for_variables(void); // they become ranges of memory. The gate is closed
// Names of the variables of one part of an image, each with its NUL; NULL: not known. kernel: in place of
// these what `element_types_of` says of it.
char *variable_names(const struct attachment *part, const char *kernel, uint32_t *bytes);
// Whoever started the capture holds this memory (of a descriptor), too, and still does when this process is
// gone.
bool launcher_keeps(int memory);
// Of the numbers that the pointers in a kernel's parameters lead to: "OFFSET TYPE" each with its NUL, type 0
// to 3 for f16, bf16, f32 and f64. NULL: not known.
const char *element_types_of(struct kernel *kernel, uint32_t *bytes);

// ---- where a launch came from -------------------------------------------------------------------

static inline bool asks_for_origins(void) { return selection.python_stacks || selection.nvtx_stacks; }
void look_at_origin(struct call *call); // LAUNCH, GRAPH_LAUNCH: while this thread is where it launches
void write_origin(struct call *call);   // before ENTER

// ---- calls that go into a stream capture --------------------------------------------------------

bool goes_into_capture(const struct call *call); // that is under way
uint64_t stream_of_call(const struct call *call);
