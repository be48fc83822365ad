// The shim that is preloaded into an application (LD_PRELOAD) and records its driver calls.
//
// Rules of everything in this folder (PRESERVE):
// - The application sees what it would have seen: same results, same errors, same order. When capture fails
// it stops with
//   a recorded reason, and every call passes through.
// - Nothing happens before the first driver call: no constructor, no threads, no signal handlers.
// - No lock is held across a call of the real driver. The gate (gate.c) is not a lock: waiting at it is
// bounded.
// - Nothing but libc. Prototypes are ABI-level and come from the table; no CUDA header is included.
// - errno is left as the driver left it.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "generated/table.h"
#include "generated/vocabulary.h"

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum {
  SUCCESS = 0,
  ERROR_INVALID_VALUE = 1,
  ERROR_OUT_OF_MEMORY = 2,
  ERROR_DEINITIALIZED = 4,
  ERROR_INVALID_CONTEXT = 201,
  ERROR_SYMBOL_NOT_FOUND = 302,
  ERROR_INVALID_HANDLE = 400,
  ERROR_NOT_READY = 600,
  ERROR_CONTEXT_IS_DESTROYED = 709
};
enum { MAX_PARAMETERS = 16, MAX_TERMS = 3 };

// ---- the table (table.c) ------------------------------------------------------------------------

enum { FLAG_CUSTOM = 1, FLAG_SYNCHRONIZES = 2, FLAG_INPUTS = 4, FLAG_OUTPUTS = 8 };

// arguments[first] * arguments[second] * scale; -1: no such factor.
struct term {
  int8_t first, second;
  uint32_t scale;
};

struct parameter {
  uint8_t role;           // enum role
  uint8_t size_bytes;     // as an argument
  uint16_t element_bytes; // of the pointee
  struct term count;      // elements behind the pointer
};

struct function {
  uint16_t record_id; // in a record
  uint16_t id;        // of the newest version that does the same with the same parameters: what code looks at
  uint8_t keep;       // enum keep
  uint8_t effect;     // enum effect
  uint16_t first_parameter;
  uint8_t parameter_count;
  uint8_t flags;
  int8_t stream; // position of the stream that the call goes to; -1: none
  const char *symbol;
  const char *unsupported; // why it is not replayed; "" when it is
  struct term effect_terms[MAX_TERMS];
};

// A symbol that has a wrapper.
struct slot {
  const char *symbol;
  int16_t function; // position in `functions`; -1: calls are not recorded
  uint8_t per_thread;
  void *wrapper;
  const char *reason; // why a call inside a window has to be noted
};

extern const struct parameter parameters[];
extern const struct function functions[];
extern const struct slot slots[];
int slot_of_symbol(const char *symbol); // -1: has no wrapper

// ---- the real driver (resolve.c) ----------------------------------------------------------------

extern _Atomic(void *) real_functions[SLOT_COUNT];
void *resolve_real(unsigned slot); // never NULL: a function that answers ERROR_SYMBOL_NOT_FOUND at worst

static inline void *real_function(unsigned slot) {
  void *real = atomic_load_explicit(&real_functions[slot], memory_order_acquire);
  return LIKELY(real != NULL) ? real : resolve_real(slot);
}

// A function of the real driver that the shim itself calls; NULL when the driver has none of that name.
void *driver_symbol(const char *symbol);
const char *driver_path(void); // "" when unknown

// ---- threads and the gate (gate.c) --------------------------------------------------------------

enum { SCRATCH_BYTES = 128 * 1024 };

struct known_word { // memory.c
  uint64_t word, state;
};
enum { KNOWN_WORDS = 256 };

// One per thread that has called the driver; never freed, handed on when its thread ends. What every call
// writes has a line of the cache to itself.
struct thread {
  struct thread *next;
  atomic_bool taken;
  atomic_uint inside; // calls of this thread inside the driver that may touch memory
  unsigned depth;     // above 0: a call made by the driver or by the shim itself; passes through
  uint32_t id;        // kernel thread id
  uint8_t *scratch;   // SCRATCH_BYTES, or NULL until a call is recorded
  struct known_word known[KNOWN_WORDS];
};

extern _Thread_local struct thread *this_thread __attribute__((tls_model("initial-exec")));
struct thread *register_thread(void);
bool thread_has_scratch(struct thread *thread);

static inline struct thread *current_thread(void) {
  struct thread *thread = this_thread;
  return LIKELY(thread != NULL) ? thread : register_thread();
}

enum mode {
  MODE_UNKNOWN, // before the first driver call
  MODE_INERT,   // capture was not asked for
  MODE_CLOSED,  // no window: only calls marked ALWAYS are recorded
  MODE_OPEN,    // everything is recorded
  MODE_DONE,    // the selection is complete, or capture has stopped
};
extern atomic_int mode;

static inline int current_mode(void) { return atomic_load_explicit(&mode, memory_order_relaxed); }

// Counts a call as inside the driver. The order of `inside` and `mode` is what membarrier in close_gate
// relies on.
static inline void count_inside(struct thread *thread) {
  unsigned inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside + 1, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void count_outside(struct thread *thread) {
  unsigned inside = atomic_load_explicit(&thread->inside, memory_order_relaxed);
  atomic_store_explicit(&thread->inside, inside - 1, memory_order_release);
}

// True when the call passes straight through; it is then counted as inside until leave_closed.
static inline bool enter_closed(struct thread *thread) {
  count_inside(thread);
  int now = current_mode();
  if (LIKELY(now == MODE_CLOSED || now == MODE_INERT || now == MODE_DONE) || thread->depth > 0)
    return true;
  count_outside(thread);
  return false;
}

static inline void leave_closed(struct thread *thread) { count_outside(thread); }

// Waits while the gate is closed by another thread, then counts as inside. False: it went past the closed
// gate, because who closed it has waited for the device for too long.
bool pass_gate(struct thread *thread);
// Makes this thread the only one that touches memory through the driver, as far as that can be had in bounded
// time. False: another thread kept the gate closed for too long.
bool close_gate(struct thread *thread, uint64_t call);
void open_gate(struct thread *thread);
void gate_is_waiting_for_device(bool waiting); // others wait a bounded time only while this holds
void prepare_gate(void);
void reset_gate_after_fork(void);
// A build for tests: threads lose time wherever another one may overtake them.
#ifdef LOSE_TIME
void lose_time(void);
#else
static inline void lose_time(void) {}
#endif
void pause_briefly(void); // 20 us and what the system adds; keeps errno

// ---- one call (call.c) --------------------------------------------------------------------------

struct attachment {
  uint16_t parameter;
  uint8_t part;
  uint8_t storage;
  uint32_t check;
  uint64_t length;
  const void *data;         // STORAGE_INLINE; STORAGE_FILE: the reference
  uint64_t offset;          // STORAGE_BLOB
  uint32_t reference_bytes; // STORAGE_FILE
  const void *mapped;       // STORAGE_FILE: where it is in this process
};

enum { MAX_ATTACHMENTS = 64, INLINE_BYTES = 4096 };

struct kernel;
struct module;
struct description;

struct call {
  const struct function *function;
  const uint64_t *arguments;
  struct thread *thread;
  struct kernel *kernel; // LAUNCH
  const uint8_t *packed; // LAUNCH: the parameter buffer, in scratch; NULL: unknown
  uint32_t packed_bytes;
  uint32_t attachment_count;
  uint32_t scratch_used;
  uint32_t serial;         // FREE and its like: which range was found
  uint64_t number;         // 0: not recorded, or not numbered yet
  uint64_t ordinal;        // LAUNCH: number among the launches that the selection matches, 0: not matched
  uint64_t ending_context; // END_OF_CONTEXT: the context whose memory ends, 0 when none does
  uint64_t ending_array;   // DESTROY: the address of the array's range, 0 when none ends
  uint16_t record_function;
  bool nested, inside;
  bool waits_for_window;  // GRAPH: it is recorded when the next window opens
  bool is_busy;           // what a window has of it could not be recorded: other threads were in the way
  uint32_t opened;        // LAUNCH: the window that it opened, 0 for none
  bool in_capture;        // the call goes into a stream capture: nothing runs
  uint64_t stream;        // LAUNCH that is timed
  struct timing *timing;  // LAUNCH: its events; NULL when it is not timed
  uint32_t window;        // LAUNCH that is recorded: the window it belongs to
  bool selected;          // LAUNCH: the window stays open until it has left the driver
  struct module *loading; // the module that the call is about to load (variables.c)
  uint32_t matched, selected_launches; // launches in it that match, and that are selected
  struct description *description;     // GRAPH: graph/description.h
  struct attachment *attachments;      // in scratch
};

// Launches a kernel or a graph.
static inline bool is_any_launch(const struct function *function) {
  return function->effect == EFFECT_LAUNCH || function->effect == EFFECT_GRAPH_LAUNCH;
}

void begin_call(struct call *call, struct thread *thread, unsigned slot, const uint64_t *arguments);
void end_call(struct call *call, int result);
void note_uncaptured(unsigned slot);
uint64_t next_call_number(void);
void number_call(struct call *call); // if it has no number yet
uint64_t last_call_number(void);
void initialise(void);

// ---- attachments (encode.c, image.c, custom/) --------------------------------------------------

uint64_t term_value(const struct call *call, const struct term *term);
void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for bytes that stand in a file; `reference` says where (FORMAT.md).
bool attach_place(struct call *call, unsigned parameter, unsigned part, const void *reference,
                  uint32_t reference_bytes, uint64_t length, uint32_t check);
// The same for bytes that end before the record is written.
void attach_copy(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
// The same for memory that may turn out not to be readable: nothing is attached then.
bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length);
void *take_scratch(struct call *call, size_t bytes); // NULL when there is no room left
// The parameter buffer that `extra` of a launch names, and its length; NULL when there is none, or a longer
// one than a kernel can take.
const void *extra_buffer(const uint64_t *words, uint64_t *bytes);
bool belongs_to_window(const struct call *call);
bool encode_enter(struct call *call); // false: it was not written
void encode_leave(struct call *call, int result);
bool read_memory(void *destination, const void *source, size_t bytes); // false: not readable

void custom_enter(struct call *call);
void custom_leave(struct call *call, int result);
void pack_launch_parameters(struct call *call);
void launch_is_described(const struct call *call); // its ENTER is on file
// Address ranges that a copy whose effect is CUSTOM may touch; count 0 to 2.
struct span {
  uint64_t address, bytes;
};
unsigned copy_spans(const struct call *call, struct span spans[2]);
// The span of that number that a batch may touch; its address is 0 where there is nothing to touch. False: no
// more.
bool batch_span(const struct call *call, uint64_t number, struct span *span);

// Attaches a module image of any form as part 0, and the prelinked containers of relocatable code as further
// parts.
void attach_image(struct call *call, unsigned parameter, const void *image);

// ---- kernels and selection (kernels.c, window.c) ------------------------------------------------

enum { KERNEL_NEW, KERNEL_MATCHES, KERNEL_OTHER };

struct kernel {
  uint64_t handle, owner, context;
  char *name;     // "" when unknown
  bool is_kernel; // CUkernel, not CUfunction
  bool layout_asked;
  uint64_t variables_context; // the last context in which its module's variables were wanted
  // The last windows that have its name and attributes, and its layout. Set when the record that holds them
  // is on file: several threads may write them, none goes on without.
  _Atomic uint32_t described_window, layout_window;
  int32_t parameter_count; // -1: unknown
  uint32_t parameter_bytes;
  uint32_t *layout;              // parameter_count pairs of offset and size
  _Atomic uint32_t list_name;    // launches.c
  struct old_launch *old_launch; // custom/old_launch.c; NULL until something was set
};

// Launches by cuLaunch and its like, and what their functions were told before.
bool is_old_launch(const struct call *call);
void note_old_launch(const struct call *call); // after a successful call
void old_launch_geometry(const struct call *call, uint32_t geometry[7]);

// False: a launch of this handle is of no interest while the window is closed.
bool launch_matters(struct thread *thread, uint64_t handle);
// The CUkernel of a library that stands behind a function nobody asked for; 0: none is known.
uint64_t library_kernel_of(const struct kernel *kernel);
struct kernel *
kernel_of_handle(uint64_t handle); // asks the driver when no recorded call created it; never NULL
bool kernel_matches(struct kernel *kernel);
void ask_layout(struct kernel *kernel);
enum { KERNEL_ATTRIBUTES = 10 }; // CUfunction_attribute 0 to 9, which every driver since CUDA 11 answers
// What the driver says of the compiled kernel: pairs of attribute and value. Returns how many pairs.
size_t ask_attributes(const struct kernel *kernel, int32_t pairs[2 * KERNEL_ATTRIBUTES]);
void note_kernels(const struct call *call); // after a successful call that makes or ends handles
void forget_kernels_of_context(uint64_t context);
void reset_kernels_after_fork(void);

bool read_selection(void); // from the environment; false: capture was not asked for
bool name_is_selected(const char *name);
void select_launch(struct call *call);  // may open the window
void finish_launch(struct call *call);  // may close it
void prepare_memory(struct call *call); // copies what the call may touch for the first time, or what it ends
// ordinal: of the launch that opens it, 0 when no launch does. Gives its number, 0: one is open, or none will
// be.
uint32_t open_window(struct thread *thread, uint64_t call, uint64_t ordinal);
void open_window_for(struct call *call); // LAUNCH: if none is open
extern _Atomic uint32_t window_number;   // of the present window, or of the last one
void close_window(struct thread *thread, uint64_t call, uint32_t number); // unless it is closed already
void reset_windows_after_fork(void);
bool launch_is_outside(void); // counts a matching launch, unless the selection has to look at it
void count_after_end(void);   // a matching launch when the capture is complete or has stopped
void finish_selection(void);  // at exit

enum { REACH_REACHABLE, REACH_PARAMETERS, REACH_LIVE };
struct selection {
  bool all, has_kernel, list; // list: launches are counted and nothing is recorded
  bool bounded; // only inside ranges: of this NVTX name, or between cuProfilerStart and cuProfilerStop
  const char *nvtx_range; // NULL: none
  bool profiler;
  bool no_device_hash;
  bool whole_range; // the window is one range, whatever is launched in it
  int reach;
  uint64_t first_launch, last_launch, max_bytes, max_launches;
  uint64_t every; // above 0: a window for each such launch that is selected; 0: one window for all
};
extern struct selection selection;

// ---- graphs (graph/) ----------------------------------------------------------------------------

// False: a launch of this executable graph is of no interest while the window is closed.
bool graph_matters(struct thread *thread, uint64_t handle);
void describe_graph_call(struct call *call);           // before a call that makes or changes one
void follow_graph_call(struct call *call, int result); // after it, or after one that ends one
void visit_matching_kernels(uint64_t handle,
                            void (*visit)(struct kernel *kernel, const uint32_t geometry[7], void *state),
                            void *state);
uint32_t kernels_in_graph(uint64_t handle); // those that a launch launches
struct range_list;
void graph_wants_variables(uint64_t handle); // of the modules of its kernels
bool graph_reaches_untouched(uint64_t handle);
void graph_reach(uint64_t handle, struct range_list *reached);
void graph_ending_memory(uint64_t handle, struct range_list *ending);
void follow_graph_launch(uint64_t handle);
void reset_graphs_after_fork(void);
// Changes while no window is open (graph/changes.c).
bool graph_change_can_wait(const struct call *call);
void keep_graph_change(struct call *call);
void forget_graph_changes(uint64_t graph);
void write_graph_changes(void);
void reset_graph_changes_after_fork(void);
void reset_conditions_after_fork(void);

// Whether a call goes into a stream capture that is under way (stream_capture.c).
bool goes_into_capture(const struct call *call);
uint64_t stream_of_call(const struct call *call);

// ---- ranges that bound the selection (ranges.c) -------------------------------------------------

bool inside_selected_range(void);
void begin_selected_range(void); // may open the window
void end_selected_range(void);   // may close it
void reset_ranges_after_fork(void);

// ---- the list of launches (launches.c) ----------------------------------------------------------

bool open_launch_list(void);
void reset_launch_list_after_fork(void);
void list_launches_of(struct call *call);
struct list_row;
void add_listed_time(struct list_row *row, uint64_t time_ns);

// ---- GPU times in the application (timing.c) ----------------------------------------------------

bool is_timed(uint64_t launch); // the n-th of its kind
void begin_timing(struct call *call, struct list_row *row);
void launch_was_timed(struct call *call, int result);
void collect_timings(uint64_t context); // of a context that is about to end; 0: of those that have ended
void reset_timings_after_fork(void);
void forget_window_timings(void); // the next window's launches are its first ones again

// ---- memory (memory.c, contents.c, idle.c) ------------------------------------------------------

enum range_kind { RANGE_DEVICE, RANGE_MANAGED, RANGE_HOST, RANGE_GLOBAL, RANGE_ARRAY };
enum range_state { RANGE_UNTOUCHED, RANGE_TOUCHED, RANGE_LOST };

struct range {
  uint64_t base, bytes;
  uint64_t context;  // current when it was allocated, 0 for none
  uint64_t owner;    // RANGE_GLOBAL: its module or library; RANGE_ARRAY: the array
  uint64_t physical; // number that all mappings of one physical allocation have, 0 for none
  uint32_t serial;   // tells a new range from an old one at the same address
  uint8_t kind, state;
  bool host_visible; // the host reads and writes it with no call of the driver
};

void memory_add(uint64_t base, uint64_t bytes, enum range_kind kind, uint64_t context, uint64_t owner);
void memory_remove(uint64_t base, uint32_t serial);
void memory_remove_owner(uint64_t owner);
void memory_remove_context(uint64_t context);
void memory_forget_touches(void);
bool memory_find(uint64_t address, struct range *found); // a block of an allocation, where it has some
bool memory_find_allocation(uint64_t address, struct range *found);
void memory_mark(uint64_t base, uint32_t serial, enum range_state state);
void reset_memory_after_fork(void);

// A growing list of ranges; used by the thread that closed the gate, and for short lists on its way there.
struct range_list {
  struct range *items;
  size_t count, capacity;
};
bool list_append(struct range_list *list, const struct range *range);
void list_free(struct range_list *list);
// Untouched ranges that words (8-byte aligned) of `data` point into are marked TOUCHED and appended.
void memory_reach(const void *data, size_t bytes, struct range_list *reached);
// Words that may reach something lie in these spans: of addresses, with room around them, and of handles.
struct word_spans {
  uint64_t address, address_bytes, handle, handles;
};
struct word_spans memory_word_spans(void);
bool memory_may_reach(const void *data, size_t bytes,
                      const struct word_spans *spans); // or holds a tensor map
bool memory_points_to_untouched(const void *data, size_t bytes);
bool memory_has_untouched(uint64_t address, uint64_t bytes);
uint64_t memory_state(void); // another number whenever more may be untouched than before
void memory_take(uint64_t address, uint64_t bytes,
                 struct range_list *taken);        // untouched ones that overlap, now TOUCHED
bool memory_has_untouched_kind(bool globals_only); // module variables, or any range
void memory_take_kind(bool globals_only, struct range_list *taken);
bool memory_is_touched_on_host(void); // memory that the host writes with no call of the driver
bool memory_is_on_host(uint64_t address, uint64_t bytes); // any such memory, touched
void memory_set_physical(uint64_t base, uint64_t physical);
void memory_make_host_visible(uint64_t base); // a managed variable
enum list_filter { LIST_BY_CONTEXT, LIST_BY_OWNER, LIST_BY_SPAN, LIST_ALL };
void memory_list_touched(enum list_filter filter, uint64_t value, uint64_t bytes, struct range_list *list);
bool memory_has_touched(enum list_filter filter, uint64_t value, uint64_t bytes);

// Whether the image of a file that was unmapped or changed since is in memory as it was (image.c).
bool image_is_still_there(const void *image, uint64_t bytes, uint32_t check);

// ---- module variables that no call named (variables.c) ------------------------------------------

void keep_image(struct call *call); // when ENTER is written: where the image is that the call loads
void note_modules(struct call *call, int result);
void want_variables(
    struct kernel *kernel); // those of its module, before a launch; takes no time when they are known
void want_variables_of_launch(const struct call *call);
bool variables_are_wanted(void);
void ask_for_variables(void); // they become ranges of memory. The gate is closed
void reset_variables_after_fork(void);

// ---- arrays and what reaches them (arrays.c, objects.c) -----------------------------------------

#define ARRAY_ADDRESSES ((uint64_t)0xa77a << 48) // where the ranges of arrays begin: no memory is there
#define MAX_ARRAY_BYTES ((uint64_t)1 << 44)
enum { MAX_ARRAY_PARTS = 64, MAX_OBJECT_TARGETS = 2 };

struct array_descriptor { // CUDA_ARRAY3D_DESCRIPTOR
  uint64_t width, height, depth;
  uint32_t format, channels, flags;
};
_Static_assert(sizeof(struct array_descriptor) == 40, "CUDA_ARRAY3D_DESCRIPTOR");

// A mipmap level, or one plane of it: `slices` (or layers) of `rows`, one after another.
struct array_part {
  uint32_t level, plane;
  uint64_t width_bytes, rows, slices;
};

struct array_layout {
  uint64_t base, bytes;
  uint64_t count;
  struct array_part parts[MAX_ARRAY_PARTS];
};

// After an array was made. NULL: its contents cannot be read, `problem` says why.
const struct array_layout *arrays_add(uint64_t handle, const struct array_descriptor *descriptor,
                                      bool mipmapped, uint32_t levels, const char **problem);
// A level of a mipmapped array or a plane of an array.
void arrays_add_part(uint64_t handle, uint64_t parent, bool mipmapped, uint32_t level, uint32_t plane);
uint64_t array_base(uint64_t handle, bool mipmapped); // 0: not known
void arrays_remove(uint64_t base);
void arrays_remove_context(uint64_t context);
void reset_arrays_after_fork(void);
int read_array(uint64_t base, uint64_t offset, size_t bytes, uint8_t *destination); // CUresult

enum object_kind { OBJECT_TEXTURE, OBJECT_SURFACE, OBJECT_REFERENCE };
void objects_add(uint64_t handle, enum object_kind kind, uint64_t target); // target 0: unbound
void objects_remove(uint64_t handle, enum object_kind kind);
void objects_remove_context(uint64_t context);
void reset_objects_after_fork(void);
// Which memory a word reaches if it is the handle of a texture or surface object; asked only for words
// between `lowest_object` and that plus `object_span`.
unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]);
extern _Atomic uint64_t lowest_object, object_span;
extern atomic_uint bound_references; // which every launch may use
bool references_reach_untouched(void);
void references_take(struct range_list *taken);
// Tensor maps (tensor_maps.c): how many are known, and the global address of one, 0 for bytes that are none.
enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGNMENT = 64 };
extern atomic_uint tensor_maps;
void tensor_map_add(const void *bytes, uint64_t address);
uint64_t tensor_map_address(const void *bytes);
void reset_tensor_maps_after_fork(void);

void follow_arrays(const struct call *call); // after a successful call that makes, binds or ends them

uint64_t current_context(void);
// What capture did to the application, beside recording calls.
struct perturbation {
  _Atomic uint64_t waits, wait_ns;        // for the device to become idle
  _Atomic uint64_t copied_bytes, copy_ns; // to the host; hashing and writing are part of the time
  _Atomic uint64_t hashed_bytes;          // on the device, instead of being copied
  _Atomic uint64_t asked_ns;              // for the variables of modules
  // Launches that match the selection, and of these the ones that no window holds.
  _Atomic uint64_t launches_matched;
  _Atomic uint64_t outside_selection; // of --launch and its like
  _Atomic uint64_t busy_threads;      // their window could not be had
  _Atomic uint64_t after_end;         // the selection was complete, or the capture had stopped
  _Atomic uint64_t in_stream_capture; // not part of launches_matched: they ran as nodes of graphs, if at all
};
extern struct perturbation perturbation;
void describe_perturbation(void);
// Reads the contents of all ranges of the list into the blobs file; scans what it reads for pointers and
// appends what they reach when `follow`. The gate is closed.
void copy_contents(struct thread *thread, struct range_list *list, enum moment moment, uint64_t call,
                   bool follow);

// One piece of a range, in memory that the next one overwrites; NULL, with the driver's answer, when it
// cannot be read. The gate is closed and the device idle, or the range is pinned memory.
enum { PIECE_BYTES = 8 << 20 };
const uint8_t *read_contents(const struct range *range, uint64_t offset, size_t bytes, int *result);
void write_contents(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                    enum moment moment, uint64_t call);
bool is_host_visible(uint64_t address);          // the driver is asked
bool push_context_of(const struct range *range); // true: pop_context has to follow
void pop_context(void);

extern atomic_bool host_memory_is_pending; // work may be under way that writes pinned or managed memory

// ---- blocks of allocations, as an allocator inside the application tells (hints.c) --------------

void memory_block_lives(uint64_t address, uint64_t bytes);
void memory_block_ends(uint64_t address);
bool memory_has_blocks(void);
void memory_cover(uint64_t address, uint64_t bytes); // a call names this memory: it counts as a block
// Words that point between blocks: the stretch around each counts as a block. Returns whether there are any.
bool memory_cover_targets(const void *data, size_t bytes, bool only_ask);
void refresh_hints(void);
void hints_for_launch(const struct call *call);

// ---- physical memory with several addresses (physical.c) ----------------------------------------

void note_physical(const struct call *call);
uint64_t physical_number(uint64_t handle, bool *on_host); // 0: not known
void reset_physical_after_fork(void);

// ---- what the host writes between two calls (host_writes.c) -------------------------------------

void host_contents_were_read(const struct range *range, uint64_t offset, const uint8_t *data, size_t bytes,
                             enum moment moment, uint64_t call);
bool host_writes_matter(const struct call *call); // before the call; touches: see touch.c
void look_for_host_writes(struct call *call, struct range_list *reached, bool follow);
void look_after_wait(struct call *call); // LEAVE of a call that may have waited for the device
void device_may_write_host_memory(void);
void forget_host_contents(void);

void note_streams(const struct call *call);
bool device_becomes_idle(const struct range_list *list, const char **problem);
extern const char context_has_ended[]; // a problem that nobody need hear of when there is nothing to read
bool device_is_idle(void);             // of the current context, asked and not waited for
void reset_streams_after_fork(void);
extern atomic_int captures_under_way;

// ---- records (writer.c, files.c) ----------------------------------------------------------------

struct record {
  uint8_t *start, *cursor;
};

bool open_writer(const char *directory, uint32_t forked_from); // false: nothing can be written
bool writer_is_open(void);
int open_capture_folder(void); // a descriptor for paths below it; -1: cannot be had
const char *blobs_file_name(void);
// Between begin and end the writer's lock is held. `bytes` counts the payload. False: capture has stopped.
bool begin_record(struct record *record, enum record_kind kind, uint16_t function, uint64_t call,
                  size_t bytes);
// False also when another window than `window` is open by the notes in the file; 0: whichever is.
bool begin_record_in(uint32_t window, struct record *record, enum record_kind kind, uint16_t function,
                     uint64_t call, size_t bytes);
void end_record(struct record *record);
void put_bytes(struct record *record, const void *data, size_t bytes); // padded to 8
static inline void put_u64(struct record *record, uint64_t value) {
  __builtin_memcpy(record->cursor, &value, 8);
  record->cursor += 8;
}
void write_note(enum note code, uint16_t function, uint64_t call, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void write_matched_note(uint16_t function, uint64_t call, uint64_t ordinal, const char *name);
void write_process_text(const char *text, size_t bytes);
// Room for `bytes` in the blobs file, 64-byte aligned.
uint64_t reserve_blob(uint64_t bytes);
bool write_blob(uint64_t offset, const void *data, size_t bytes); // false: capture has stopped
int store_blob(uint64_t offset, const void *data, size_t bytes);  // errno, 0: stored, or capture has stopped
void stop_capture(const char *format, ...) __attribute__((format(printf, 1, 2)));
void close_writer(void); // at a clean end
void abandon_writer_after_fork(void);

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);
// ---- process.c ----------------------------------------------------------------------------------

void describe_process(uint32_t forked_from);
void describe_driver(void);
void note_contexts(const struct call *call);
uint64_t context_that_ends(const struct call *call);
void reset_contexts_after_fork(void);
