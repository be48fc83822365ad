#include "scheduler.hpp"

#include "device/device.hpp"
#include "entry/entry.hpp"
#include "exec/interface/findings.hpp"
#include "recorder.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

namespace emulator::driver {
namespace {

thread_local uint64_t thread_clock_ns = 0;

// How long a thread sleeps when it waits for a value in memory that only the host can change.
constexpr auto poll_interval = std::chrono::microseconds(200);

Order host_knows;
thread_local Running running;

void join(Order &to, const Order &from) {
  for (const auto &[stream, number] : from)
    to[stream] = std::max(to[stream], number);
}

void host_learns(const Order &order) {
  if (settings().checks.bits & bit_of(Check::race))
    join(host_knows, order);
}

// The work begins: what it waits for has begun, and its stream gets no other before.
void begin_order(Work &work) {
  if (!(settings().checks.bits & bit_of(Check::race)))
    return;
  Stream &stream = *work.stream;
  join(work.order, stream.order);
  for (const auto &earlier : work.after)
    join(work.order, earlier->order);
  if (work.ready) // whoever wrote the value
    driver().streams.for_each([&](const std::shared_ptr<Stream> &other) { join(work.order, other->order); });
  work.order[stream.identifier] = ++stream.begun;
  stream.order = work.order;
}

class RunningWork {
public:
  explicit RunningWork(const Work &work) : before_(std::move(running)) {
    running = {work.order, work.stream->identifier};
  }
  ~RunningWork() { running = std::move(before_); }

private:
  Running before_;
};

bool runnable(const Work &work) {
  if (work.running || work.done)
    return false;
  for (const auto &earlier : work.after)
    if (!earlier->done)
      return false;
  return !work.ready || work.ready();
}

void finish(const std::shared_ptr<Work> &work, const Outcome &outcome) {
  auto stream = work->stream;
  uint64_t start = std::max(stream->clock_ns, work->issue_ns);
  for (const auto &earlier : work->after)
    start = std::max(start, earlier->finish_ns);
  work->finish_ns = start + outcome.cost_ns;
  stream->clock_ns = work->finish_ns;
  Context &context = *stream->context;
  if (outcome.error != CUDA_SUCCESS && context.error == CUDA_SUCCESS)
    context.error = outcome.error;
  work->done = true;
  work->running = false;
  work->after.clear();
  work->run = nullptr;
  work->run_around = nullptr;
  work->ready = nullptr;
  work->stream = nullptr;
  stream->queue.pop_front();
  if (stream->queue.empty()) {
    auto &busy = driver().busy;
    busy.erase(std::remove(busy.begin(), busy.end(), stream), busy.end());
  }
  driver().changed.notify_all();
}

bool run_what_can_run(Lock &lock);

// One thread for all host functions, as the documentation allows to rely on no more.
class HostThread {
public:
  void add(std::shared_ptr<Work> work) {
    if (!started_) {
      std::thread([this] { serve(); }).detach(); // throws when the process may have no more threads
      started_ = true;
    }
    works_.push_back(std::move(work));
    arrived_.notify_one();
  }

private:
  void serve() {
    Lock lock(driver().mutex);
    for (;;) {
      arrived_.wait(lock, [this] { return !works_.empty(); });
      auto work = works_.front();
      works_.pop_front();
      auto run = std::move(work->run);
      Outcome outcome;
      lock.unlock();
      {
        InsideHostFunction inside;
        outcome = run();
      }
      lock.lock();
      if (!work->stream)
        continue;               // a bare function: call_on_host_thread
      host_learns(work->order); // it may tell another thread
      finish(work, outcome);
      if (!settings().deferred)
        run_what_can_run(lock);
    }
  }

  std::deque<std::shared_ptr<Work>> works_;
  std::condition_variable arrived_;
  bool started_ = false;
};

HostThread &host_thread() {
  static HostThread *only = new HostThread;
  return *only;
}

Outcome outcome_of(const std::function<Outcome()> &run) {
  Outcome outcome;
  try {
    outcome = run();
  } catch (const std::bad_alloc &) {
    outcome.error = CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    outcome.error = CUDA_ERROR_UNKNOWN;
  }
  return outcome;
}

// The work that begins before this one, which is the first of its stream, has run. Null: none does.
std::shared_ptr<Work> early_next(const Work &work) {
  const auto &queue = work.stream->queue;
  if (!work.lets_next_begin || queue.size() < 2)
    return nullptr;
  const auto &next = queue[1];
  return next->run_around && runnable(*next) ? next : nullptr;
}

// Runs a runnable work, or hands it to the host thread.
void start(Lock &lock, const std::shared_ptr<Work> &work) {
  work->running = true;
  begin_order(*work);
  // After an error nothing of the context runs any more: its memory may be in any state.
  bool failed = work->stream->context->error != CUDA_SUCCESS && !work->even_after_error;
  if (failed || !work->run) {
    finish(work, {});
    return;
  }
  if (work->on_host_thread) {
    try {
      host_thread().add(work);
    } catch (const std::system_error &) {
      finish(work, {CUDA_ERROR_OUT_OF_MEMORY, 0});
    }
    return;
  }
  auto run = std::move(work->run);
  auto next = early_next(*work);
  Outcome outcome, of_next;
  if (next) {
    next->running = true;
    begin_order(*next);
  }
  RunningWork now(next ? *next : *work);
  lock.unlock();
  if (next) {
    bool ran = false;
    auto earlier = [&] {
      ran = true;
      RunningWork first(*work);
      outcome = outcome_of(run);
      return outcome.error == CUDA_SUCCESS;
    };
    of_next = outcome_of([&] { return next->run_around(earlier); });
    if (!ran)
      earlier();
  } else {
    outcome = outcome_of(run);
  }
  lock.lock();
  finish(work, outcome);
  if (next)
    finish(next, of_next);
}

// False when nothing could.
bool run_what_can_run(Lock &lock) {
  bool any = false;
  for (bool progress = true; progress; any = any || progress) {
    progress = false;
    for (size_t i = 0; i < driver().busy.size(); ++i) {
      auto work = driver().busy[i]->queue.front();
      if (!runnable(*work))
        continue;
      start(lock, work);
      progress = true;
      break; // the list may have changed
    }
  }
  return any;
}

// The work that must run next before `target` can: its stream's front, or what that front waits for.
std::shared_ptr<Work> next_towards(const std::shared_ptr<Work> &target) {
  auto work = target->stream->queue.front();
  for (;;) { // not recursive: a graph can make this path long
    auto earlier = std::find_if(work->after.begin(), work->after.end(), [](auto &w) { return !w->done; });
    if (earlier == work->after.end())
      return work;
    work = (*earlier)->stream->queue.front();
  }
}

// Runs one work towards `target`; waits when it is another thread's turn. Call while target is not done.
void advance(Lock &lock, const std::shared_ptr<Work> &target) {
  auto work = next_towards(target);
  if (runnable(*work))
    start(lock, work);
  else if (work->ready && !work->running) {
    // A value in memory, which any other work, or any thread, may write.
    if (!run_what_can_run(lock))
      driver().changed.wait_for(lock, poll_interval);
  } else
    driver().changed.wait(lock);
}

void complete(Lock &lock, const std::shared_ptr<Work> &work) {
  while (!work->done)
    advance(lock, work);
  thread_clock_ns = std::max(thread_clock_ns, work->finish_ns);
  host_learns(work->order);
}

void waited_for(Device &device) {
  if (device.after_wait)
    device.after_wait(device);
}

std::vector<std::shared_ptr<Work>> last_works(Context &context) {
  std::vector<std::shared_ptr<Work>> works;
  for (const auto &stream : driver().busy)
    if (stream->context == &context)
      works.push_back(stream->last);
  return works;
}

// The implicit joins of the legacy default stream (CUDA driver API, "Stream synchronization behavior").
void join_with_legacy_stream(Stream &stream, Work &work) {
  Context &context = *stream.context;
  auto wait_for = [&](const std::shared_ptr<Stream> &other) {
    if (other && other->last)
      work.after.push_back(other->last);
  };
  if (stream.blocking())
    wait_for(context.legacy_stream);
  if (!stream.legacy)
    return;
  auto &others = context.blocking_streams;
  for (auto item = others.begin(); item != others.end();) {
    auto other = item->lock();
    wait_for(other);
    item = other ? std::next(item) : others.erase(item);
  }
  auto &ended = context.ended;
  ended.erase(std::remove_if(ended.begin(), ended.end(),
                             [&](const auto &last) {
                               if (last.second)
                                 work.after.push_back(last.first);
                               return last.second;
                             }),
              ended.end());
}

// Work of a context on which cuCtxWaitEvent was called.
void wait_for_what_holds(Context &context, Work &work) {
  auto &holding = context.holding;
  for (auto item = holding.begin(); item != holding.end();) {
    if ((*item)->done) {
      context.held_until_ns = std::max(context.held_until_ns, (*item)->finish_ns);
      work.issue_ns = std::max(work.issue_ns, context.held_until_ns);
      item = holding.erase(item);
    } else {
      work.after.push_back(*item++);
    }
  }
}

} // namespace

const Running &running_work() { return running; }
const Order &host_order() { return host_knows; }

bool has_several_streams(const Context &context) {
  size_t count = (context.legacy_stream ? 1 : 0) + context.per_thread_streams.size();
  driver().streams.for_each(
      [&](const std::shared_ptr<Stream> &stream) { count += stream->context == &context; });
  return count > 1 || driver().busy.size() > 1;
}

Stream::Stream(Context &owner, unsigned stream_flags, int stream_priority)
    : context(&owner), flags(stream_flags), priority(stream_priority),
      identifier(driver().next_identifier++) {}

std::shared_ptr<Stream> new_stream(Context &context, unsigned flags, int priority) {
  auto stream = std::make_shared<Stream>(context, flags, priority);
  if (stream->blocking())
    context.blocking_streams.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> explicit_stream(CUstream handle) {
  auto stream = driver().streams.get(handle);
  require(stream->context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return stream;
}

std::shared_ptr<Stream> stream_of(Context &context, CUstream handle) {
  if (handle == nullptr)
    handle = PerThreadDefaultStream::active() ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (handle == CU_STREAM_LEGACY) {
    if (!context.legacy_stream) {
      context.legacy_stream = std::make_shared<Stream>(context, CU_STREAM_DEFAULT, 0);
      context.legacy_stream->legacy = true;
    }
    return context.legacy_stream;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    auto &stream = context.per_thread_streams[std::this_thread::get_id()];
    if (!stream)
      stream = new_stream(context, CU_STREAM_DEFAULT, 0);
    return stream;
  }
  return explicit_stream(handle);
}

void enqueue(const std::shared_ptr<Stream> &stream, const std::shared_ptr<Work> &work, bool joins) {
  Context &context = *stream->context;
  work->stream = stream;
  work->issue_ns = std::max(thread_clock_ns, context.held_until_ns);
  work->order = host_knows;
  if (joins) {
    join_with_legacy_stream(*stream, *work);
    wait_for_what_holds(context, *work);
  }
  if (stream->queue.empty())
    driver().busy.push_back(stream);
  stream->queue.push_back(work);
  stream->last = work;
}

void settle(Lock &lock) {
  if (!settings().deferred)
    run_what_can_run(lock);
}

std::shared_ptr<Work> issue(Lock &lock, const std::shared_ptr<Stream> &stream, std::shared_ptr<Work> work) {
  refuse_recorded(*stream);
  enqueue(stream, work);
  settle(lock);
  return work;
}

std::vector<std::shared_ptr<Work>> newest_works(Context &context) {
  std::vector<std::shared_ptr<Work>> works;
  auto add = [&](const std::shared_ptr<Stream> &stream) {
    if (stream && stream->context == &context && stream->last)
      works.push_back(stream->last);
  };
  driver().streams.for_each(add);
  add(context.legacy_stream);
  for (const auto &item : context.per_thread_streams)
    add(item.second);
  for (const auto &stream : driver().busy) // destroyed streams, and those inside graphs
    add(stream);
  for (const auto &last : context.ended)
    works.push_back(last.first);
  return works;
}

void call_on_host_thread(std::function<void()> function) {
  auto work = std::make_shared<Work>();
  work->run = [function = std::move(function)]() -> Outcome {
    function();
    return {};
  };
  host_thread().add(work);
}

std::shared_ptr<Work> issue(Lock &lock, const std::shared_ptr<Stream> &stream, std::function<Outcome()> run) {
  auto work = std::make_shared<Work>();
  work->run = std::move(run);
  return issue(lock, stream, std::move(work));
}

void synchronise(Lock &lock, const std::shared_ptr<Work> &work) {
  auto stream = work->stream; // null when done already
  Context *context = stream ? stream->context : nullptr;
  complete(lock, work);
  if (context)
    waited_for(context->device);
  if (context)
    require(context->error == CUDA_SUCCESS, context->error);
}

void synchronise(Lock &lock, const std::shared_ptr<Stream> &stream) {
  if (auto work = stream->last)
    complete(lock, work);
  waited_for(stream->context->device);
  require(stream->context->error == CUDA_SUCCESS, stream->context->error);
}

void drain(Lock &lock, Context &context) {
  for (const auto &work : last_works(context))
    complete(lock, work);
  for (const auto &work : newest_works(context))
    host_learns(work->order);
  context.ended.clear();
}

void drain(Lock &lock) {
  std::vector<std::shared_ptr<Context>> contexts;
  driver().contexts.for_each([&](const std::shared_ptr<Context> &context) { contexts.push_back(context); });
  for (const auto &context : contexts)
    drain(lock, *context);
}

void synchronise(Lock &lock, Context &context) {
  drain(lock, context);
  waited_for(context.device);
  // Work that is done already also lies before this moment.
  auto move_clock = [](const std::shared_ptr<Stream> &stream) {
    thread_clock_ns = std::max(thread_clock_ns, stream->clock_ns);
  };
  driver().streams.for_each([&](const std::shared_ptr<Stream> &stream) {
    if (stream->context == &context)
      move_clock(stream);
  });
  if (context.legacy_stream)
    move_clock(context.legacy_stream);
  for (const auto &item : context.per_thread_streams)
    move_clock(item.second);
  require(context.error == CUDA_SUCCESS, context.error);
}

bool idle(Lock &lock, const std::shared_ptr<Work> &work) {
  if (!work)
    return true;
  if (settings().deferred && !work->done) {
    auto next = next_towards(work);
    if (runnable(*next))
      start(lock, next);
  } else if (!work->done) {
    run_what_can_run(lock); // a value in memory may have been written by the host
  }
  if (work->done)
    complete(lock, work); // the thread has learnt of it
  return work->done;
}

} // namespace emulator::driver
