// What the checks of a launch found, for REPLAY_EMULATOR_CHECKS.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

enum class Check : uint8_t { init, race, sync, numbers, cancellation };
constexpr const char *check_names[] = {"init", "race", "sync", "numbers", "cancellation"};
constexpr uint32_t bit_of(Check check) { return uint32_t{1} << static_cast<uint32_t>(check); }

enum class FindingKind : uint8_t {
  write_after_write,
  read_after_write,
  write_after_read,
  divergent_barrier, // parts of a warp come at different places to a barrier that it has to reach together
  outside_its_mask,  // a lane takes part in an operation whose mask, as it gives it, does not name it
  masks_differ,      // two lanes name each other, and others, by masks that are not equal
  registers_differ,  // not all warps of a warpgroup execute the same setmaxnreg
  makes_nan,         // an instruction makes it of values that are finite
  makes_infinity,
  undefined_branch, // decided by what nothing has written
  undefined_address,
  undefined_output,
  loses_digits, // a difference of numbers that are almost equal
};
constexpr const char *finding_kind_names[] = {
    "write_after_write", "read_after_write", "write_after_read", "divergent_barrier", "outside_its_mask",
    "masks_differ",      "registers_differ", "makes_nan",        "makes_infinity",    "undefined_branch",
    "undefined_address", "undefined_output", "loses_digits"};

// Of one launch: more would say nothing new, for each has its own two places in the code.
constexpr size_t most_findings = 256;

// Who did something, and where in the code.
struct Side {
  std::string instruction; // its line of PTX
  std::string file;        // of .loc, without folders; empty without
  uint32_t line = 0;
  uint32_t text = 0; // of the module
  uint32_t ptx_line = 0;
  std::array<uint32_t, 3> block = {}, thread = {};
  bool has_thread = true; // else these two are not known
};

// Equal findings, of one pair of places in the code; the sides are those of the first one in the lowest
// block.
struct Finding {
  Check check = Check::race;
  FindingKind kind = FindingKind::write_after_write;
  Side first, second;         // in the order in which this driver ran them
  bool has_two_sides = false; // else the second is empty; of init the first side read what the second used
  bool same_value = false;    // both wrote the same
  bool one_warp = false;      // both threads are of one warp
  bool asynchronous = false;  // one of the two is a copy that goes on after its instruction
  std::string space;          // empty where no memory is touched
  std::string variable;       // in shared memory, empty where none is declared
  uint64_t allocation = 0;    // address of the one in global memory that was touched
  uint64_t offset = 0;        // in the variable, the allocation, or the space
  uint32_t bytes = 0;
  uint64_t count = 0;           // of accesses by one thread
  std::string value, new_value; // of a race: in memory when the second came, and what that writes; or empty
  bool has_writer = false;      // of a race whose first side reads: who wrote what it read is known
  Side writer;
  std::string writer_kernel;         // where that was another launch, or a call of the host
  std::string earlier_kernel;        // of a race between works of streams: the first side's kernel or call
  uint64_t earlier_launch = 0;       // and its launch, from 1; 0: a call of the host
  std::vector<std::string> operands; // of an instruction that makes a number, in its order
  std::string result;                // likewise; empty elsewhere
};

// What a check leaves out of a launch, and why.
struct Unchecked {
  Check check = Check::race;
  std::string why;
};

} // namespace emulator
