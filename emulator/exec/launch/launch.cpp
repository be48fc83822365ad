// Runs the blocks of a launch: on several threads when they cannot see each other, else one after the other
// on this thread, with blocks that take long put aside so that those they wait for get their turn.
#include "exec/launch/launch.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "exec/access/access_costs.hpp"
#include "exec/access/touched.hpp"
#include "exec/block/cluster.hpp"
#include "exec/check/between/global_races.hpp"
#include "exec/check/findings.hpp"
#include "exec/launch/alone.hpp"

namespace emulator {

namespace {

constexpr int64_t instructions_per_warp = 20000;
// A cluster that has not ended after so many rounds is put aside and the next one begins. What has been put
// aside once, and what waits for its whole grid, probably waits: it is asked often and briefly.
constexpr int rounds_before_parking = 10;
constexpr int64_t instructions_when_waiting = 2000;
// Memory of blocks that are put aside is bounded; the oldest of them go on when it is used up.
constexpr uint64_t most_parked_bytes = uint64_t{2} << 30;
// Threads are worth their start once this thread alone has worked for so long.
constexpr auto worth_a_thread = std::chrono::microseconds(200);

// What the worker counted, its accounts spread over the classes.
LaunchCounters counters_of(Worker &worker) {
  for (uint32_t s = 1; s <= reach_slots; ++s)
    worker.reach.settle(s, worker.counters);
  LaunchCounters sum = worker.counters;
  const std::vector<Account> &accounts = worker.launch->program->accounts;
  for (size_t a = 0; a < accounts.size(); ++a)
    for (size_t c = 0; c < instruction_classes; ++c) {
      uint64_t count = accounts[a].of_class[c];
      sum.warp_class[c] += count * worker.executed[a].warps;
      sum.thread_class[c] += count * worker.executed[a].threads;
      sum.thread_instructions += count * worker.executed[a].threads;
    }
  return sum;
}

struct Outcome {
  std::mutex lock;
  std::atomic<uint64_t> next{0}; // block to begin
  std::atomic<uint64_t> first_failed{UINT64_MAX};
  Fault fault{LaunchStatus::ok, ""};
  LaunchCounters counters;
  Touched touched;
  TouchedSites sites;
  AccessCosts costs;
  FoundPlaces found;
  std::vector<DeviceLaunch> device_launches;

  // The failure of the lowest block counts, so that the message does not depend on the number of threads.
  void failed(uint64_t block, const Fault &what) {
    std::lock_guard<std::mutex> hold(lock);
    if (block < first_failed.load()) {
      first_failed.store(block);
      fault = what;
    }
  }
  void add(Worker &worker) {
    std::lock_guard<std::mutex> hold(lock);
    emulator::add(counters, counters_of(worker));
    emulator::add(touched, worker.touched);
    emulator::add(sites, worker.sites);
    emulator::add(costs, costs_of(worker));
    emulator::add(found, worker.found);
  }
};

void check_time(Cluster &cluster) {
  const Launch &launch = *cluster.launch;
  uint64_t limit_ms = launch.request->timeout_ms;
  if (limit_ms == 0)
    return;
  auto spent = std::chrono::steady_clock::now() - launch.begin;
  if (spent > std::chrono::milliseconds(limit_ms))
    cluster.report_timeout();
}

void run_to_end(Cluster &cluster) {
  while (!cluster.run(instructions_per_warp))
    check_time(cluster);
}

Worker make_worker(const Launch &launch) {
  Worker worker;
  worker.launch = &launch;
  worker.ranges.resize(launch.program->sites + 1);
  worker.executed.resize(launch.program->accounts.size());
  if (launch.request->record_costs)
    worker.costs.resize(launch.program->code.size());
  return worker;
}

// Takes blocks until none is left or an earlier one has failed.
void run_blocks(const Launch &launch, Outcome &outcome, const std::function<void()> &after_each) {
  uint64_t index = 0;
  Worker worker = make_worker(launch);
  try {
    Cluster cluster;
    bool prepared = false;
    while ((index = outcome.next.fetch_add(1)) < launch.clusters && index < outcome.first_failed.load()) {
      if (prepared)
        check_time(cluster); // blocks that are brief may be many
      else
        cluster.prepare(launch, worker);
      prepared = true;
      cluster.start(index);
      run_to_end(cluster);
      after_each();
    }
  } catch (const Fault &fault) {
    outcome.failed(index, fault);
  } catch (const std::bad_alloc &) {
    outcome.failed(index, Fault{LaunchStatus::out_of_resources,
                                "no host memory for a block of " + launch.program->info.name});
  }
  outcome.add(worker);
}

void run_apart(const Launch &launch, uint32_t threads, Outcome &outcome) {
  std::vector<std::thread> helpers;
  auto maybe_start_helpers = [&] {
    if (threads < 2 || !helpers.empty() || outcome.next.load() + 1 >= launch.clusters)
      return;
    if (std::chrono::steady_clock::now() - launch.begin < worth_a_thread)
      return;
    for (uint32_t t = 1; t < threads && t < launch.clusters; ++t) {
      try {
        helpers.emplace_back([&] { run_blocks(launch, outcome, [] {}); });
      } catch (const std::system_error &) {
        threads = 1; // the process may have no more threads: this one does the work
      }
    }
  };
  run_blocks(launch, outcome, maybe_start_helpers);
  for (std::thread &helper : helpers)
    helper.join();
}

void run_in_order(Launch &launch, Outcome &outcome) {
  Worker worker = make_worker(launch);
  if (looks_for_global_races(launch))
    worker.global_races = std::make_shared<GlobalRaces>(launch);
  worker.awaits_prerequisite = static_cast<bool>(launch.request->prerequisite);
  std::vector<std::unique_ptr<Cluster>> parked, spare;
  uint64_t &next = worker.next_cluster;
  uint64_t current = 0;
  const Program &program = *launch.program;
  uint64_t bytes_per_cluster = blocks_per_cluster(*launch.request) *
                               (launch.shared_end_bytes +
                                uint64_t{launch.warps_per_block} *
                                    (program.register_bytes + lanes_per_warp * uint64_t{launch.local_bytes}) +
                                4096);
  uint64_t most_parked = std::max<uint64_t>(1, most_parked_bytes / bytes_per_cluster);
  // The other launch takes none of this one's time.
  auto run_prerequisite = [&] {
    auto begin = std::chrono::steady_clock::now();
    worker.awaits_prerequisite = false;
    bool succeeded = launch.request->prerequisite();
    launch.begin += std::chrono::steady_clock::now() - begin;
    return succeeded;
  };
  try {
    size_t turn = 0;
    while (next < launch.clusters || !parked.empty()) {
      std::unique_ptr<Cluster> cluster;
      bool is_new = next < launch.clusters && (parked.size() < most_parked || launch.request->cooperative);
      if (is_new) {
        if (spare.empty()) {
          cluster = std::make_unique<Cluster>();
          cluster->prepare(launch, worker);
        } else {
          cluster = std::move(spare.back());
          spare.pop_back();
        }
        current = next;
        cluster->start(next++);
      } else {
        if (worker.awaits_prerequisite) {
          if (!run_prerequisite())
            break;
          for (const auto &each : parked)
            each->prerequisite_ran();
        }
        turn %= parked.size();
        current = parked[turn]->index;
        cluster = std::move(parked[turn]);
      }
      bool done = false;
      bool brief = !is_new || launch.request->cooperative;
      for (int round = 0; !done && round < (brief ? 1 : rounds_before_parking); ++round) {
        done = cluster->run(brief ? instructions_when_waiting : instructions_per_warp);
        check_time(*cluster);
      }
      if (is_new) {
        (done ? spare : parked).push_back(std::move(cluster));
      } else if (done) {
        parked.erase(parked.begin() + static_cast<std::ptrdiff_t>(turn));
        spare.push_back(std::move(cluster));
      } else {
        parked[turn++] = std::move(cluster);
      }
    }
    if (worker.awaits_prerequisite)
      run_prerequisite();
  } catch (const Fault &fault) {
    outcome.failed(current, fault);
  } catch (const std::bad_alloc &) {
    outcome.failed(current, Fault{LaunchStatus::out_of_resources,
                                  "no host memory for the blocks of " + program.info.name});
  }
  outcome.add(worker);
  outcome.device_launches = std::move(worker.device_launches);
}

uint32_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  return std::max(1u, std::thread::hardware_concurrency());
}

} // namespace

LaunchResult run_launch(Launch &launch, std::vector<DeviceLaunch> &launched) {
  launch.begin = std::chrono::steady_clock::now();
  Outcome outcome;
  const Program &program = *launch.program;
  bool in_order = program.orders_blocks || program.has_side_effects || program.uses_clock ||
                  launch.request->cooperative || launch.request->prerequisite || launch.request->watched ||
                  looks_for_global_races(launch);
  Running running(launch, in_order);
  if (launch.request->checks & bit_of(Check::init) && blocks_per_cluster(*launch.request) > 1)
    global_shadow().all_written(); // what such blocks write is not followed
  if (in_order)
    run_in_order(launch, outcome);
  else
    run_apart(launch, launch.request->worker_threads ? launch.request->worker_threads : usable_processors(),
              outcome);
  LaunchResult result;
  result.counters = outcome.counters;
  result.touched = std::move(outcome.touched);
  result.costs = std::move(outcome.costs);
  if (launch.request->checks) {
    result.findings = named(outcome.found, launch);
    result.unchecked = unchecked(launch);
    result.sites = std::move(outcome.sites);
    place_sites(result.sites, launch);
  }
  launched = std::move(outcome.device_launches);
  result.status = outcome.fault.status;
  result.message = outcome.fault.message;
  return result;
}

} // namespace emulator
