// Streams are queues of work; this file decides when the work runs and what the modelled clock says.
//
// Order: work of one stream runs in the order of issue. A Work also waits for the works in `after` (events of
// other streams, and the legacy default stream's implicit joins). All state is guarded by the driver's lock;
// the lock is given up while a Work's `run` is called.
// When: by default at once, on the thread that issued it. With REPLAY_EMULATOR_DEFERRED=1 only when somebody
// waits for it, so that a program which forgets to wait sees stale data.
// Host functions run on a thread of their own, as they do on a GPU: the issuing thread may hold a lock they
// need.
// `issue` is for work that cannot be recorded; what can goes through recorder.hpp.
#pragma once

#include "device/driver.hpp"

#include <deque>
#include <functional>
#include <map>

namespace emulator::driver {

class Recorder;

// What is ordered before something: of each stream, by its identifier, up to which of its works. Followed
// where settings().checks asks for races.
using Order = std::map<uint64_t, uint64_t>;

struct Outcome {
  CUresult error = CUDA_SUCCESS; // left in the context when not CUDA_SUCCESS
  uint64_t cost_ns = 0;          // modelled
};

struct Work {
  std::shared_ptr<Stream> stream; // null once done
  std::vector<std::shared_ptr<Work>> after;
  std::function<bool()> ready;  // empty, or asked before the work runs (waits on a memory value)
  std::function<Outcome()> run; // empty for a pure marker (event record, wait)
  // Programmatic dependent launch, where work is deferred: the next work of the stream may begin before this
  // one. Its `run_around` is then called in place of both; it calls what it is given, this work's `run`,
  // which answers whether it succeeded.
  bool lets_next_begin = false;
  std::function<Outcome(const std::function<bool()> &earlier)> run_around;
  bool on_host_thread = false;
  bool even_after_error = false; // runs though its context has failed
  Order order; // the work itself included, once it has begun; before, what the host knew at its issue
  bool running = false;
  bool done = false;
  uint64_t issue_ns = 0;  // the issuing thread's modelled clock
  uint64_t finish_ns = 0; // valid once done
};

struct Stream : std::enable_shared_from_this<Stream> {
  Stream(Context &context, unsigned flags, int priority);

  Context *context;
  unsigned flags;
  int priority;
  uint64_t identifier;
  bool legacy = false;
  bool blocking() const { return !legacy && !(flags & CU_STREAM_NON_BLOCKING); }

  std::deque<std::shared_ptr<Work>> queue;
  std::shared_ptr<Work> last; // the newest work, done or not; null before the first
  uint64_t clock_ns = 0;      // modelled time at which the last done work ended
  std::map<int, CUlaunchAttributeValue> attributes;
  Order order;        // of the last work that has begun
  uint64_t begun = 0; // how many have

  std::shared_ptr<Recorder> recorder; // of a recorded stream: recorder.hpp
};

// Resolves a handle as the API does: 0 is the legacy or the per-thread default stream of the current context.
std::shared_ptr<Stream> stream_of(Context &context, CUstream handle);
// The same for one that is named, in whose own context it is, whatever is current.
std::shared_ptr<Stream> explicit_stream(CUstream handle);
std::shared_ptr<Stream> new_stream(Context &context, unsigned flags, int priority);

// Of the work that this thread runs, and which stream it is of; {} where it runs none.
struct Running {
  Order order;
  uint64_t stream = 0;
};
const Running &running_work();
// What a thread of the host has waited for, of all of them. With the driver's lock.
const Order &host_order();
// Whether more than one stream may have work. With the driver's lock.
bool has_several_streams(const Context &context);

// Appends work to a stream and, unless deferred, runs whatever can run now. Returns the work.
std::shared_ptr<Work> issue(Lock &lock, const std::shared_ptr<Stream> &stream, std::shared_ptr<Work> work);
std::shared_ptr<Work> issue(Lock &lock, const std::shared_ptr<Stream> &stream, std::function<Outcome()> run);

// The same in two steps, for several works that must enter the queues together: first every `enqueue`, which
// runs nothing, then `settle`. `joins` is false for works inside a graph, whose first and last works join.
void enqueue(const std::shared_ptr<Stream> &stream, const std::shared_ptr<Work> &work, bool joins = true);
void settle(Lock &lock);

// The newest work of every stream of the context that has had any, done or not.
std::vector<std::shared_ptr<Work>> newest_works(Context &context);

// Calls a function on the thread of host functions, after those that are due already.
void call_on_host_thread(std::function<void()> function);

// Each waits until the named work is done and moves the calling thread's modelled clock to its end.
// They throw the context's error if work has left one.
void synchronise(Lock &lock, const std::shared_ptr<Work> &work);
void synchronise(Lock &lock, const std::shared_ptr<Stream> &stream);
void synchronise(Lock &lock, Context &context);
// The same without an error: for frees and for the end of a context.
void drain(Lock &lock, Context &context);
void drain(Lock &lock); // of every context

// True when nothing is left to do. In deferred mode one piece of work is run first, so that polling ends.
bool idle(Lock &lock, const std::shared_ptr<Work> &work);

} // namespace emulator::driver
