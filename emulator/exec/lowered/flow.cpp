// Control flow of a function: basic blocks and the immediate post-dominator of each, where lanes that part
// meet.
#include <algorithm>

#include "exec/lowered/lowered.hpp"

namespace emulator {

namespace {

// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, on the reversed graph. Node n is the exit.
void find_post_dominators(std::vector<BasicBlock> &blocks) {
  size_t n = blocks.size();
  std::vector<std::vector<uint32_t>> predecessors(n + 1);
  for (size_t b = 0; b < n; ++b) {
    if (blocks[b].successors.empty())
      blocks[b].successors.push_back(static_cast<uint32_t>(n));
    for (uint32_t s : blocks[b].successors)
      predecessors[s].push_back(static_cast<uint32_t>(b));
  }
  std::vector<uint32_t> order; // postorder of the reversed graph
  std::vector<int32_t> number(n + 1, -1);
  auto visit = [&](uint32_t root) {
    std::vector<std::pair<uint32_t, size_t>> stack;
    if (number[root] != -1)
      return;
    number[root] = -2;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      uint32_t node = stack.back().first;
      if (stack.back().second < predecessors[node].size()) {
        uint32_t next = predecessors[node][stack.back().second++];
        if (number[next] == -1) {
          number[next] = -2;
          stack.push_back({next, 0});
        }
      } else {
        number[node] = static_cast<int32_t>(order.size());
        order.push_back(node);
        stack.pop_back();
      }
    }
  };
  visit(static_cast<uint32_t>(n));
  std::vector<int32_t> dominator(n + 1, -1);
  dominator[n] = static_cast<int32_t>(n);
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t k = order.size(); k-- > 0;) {
      uint32_t node = order[k];
      if (node == n)
        continue;
      int32_t best = -1;
      for (uint32_t s : blocks[node].successors) {
        if (number[s] < 0 || dominator[s] < 0)
          continue;
        int32_t other = static_cast<int32_t>(s);
        if (best < 0) {
          best = other;
          continue;
        }
        while (best != other) {
          while (number[static_cast<size_t>(best)] < number[static_cast<size_t>(other)])
            best = dominator[static_cast<size_t>(best)];
          while (number[static_cast<size_t>(other)] < number[static_cast<size_t>(best)])
            other = dominator[static_cast<size_t>(other)];
        }
      }
      if (best != dominator[node]) {
        dominator[node] = best;
        changed = true;
      }
    }
  }
  // Blocks that never reach the exit (endless loops) have no post-dominator.
  for (size_t b = 0; b < n; ++b)
    blocks[b].post_dominator = dominator[b] == static_cast<int32_t>(n) ? -1 : dominator[b];
}

} // namespace

std::vector<BasicBlock> find_blocks(const LoweredFunction &function,
                                    const std::vector<std::vector<uint32_t>> &tables) {
  const std::vector<Lowered> &code = function.code;
  std::vector<bool> begins(code.size() + 1, false);
  if (!code.empty())
    begins[0] = true;
  for (size_t k = 0; k < code.size(); ++k) {
    if (code[k].flow == Flow::next)
      continue;
    begins[k + 1] = true;
    if (code[k].flow == Flow::branch)
      begins[function.start_of_position[code[k].target]] = true;
    if (code[k].flow == Flow::table)
      for (uint32_t position : tables[code[k].table])
        begins[function.start_of_position[position]] = true;
  }
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_at(code.size() + 1, 0);
  for (size_t k = 0; k < code.size(); ++k) {
    if (begins[k]) {
      blocks.emplace_back();
      blocks.back().begin = static_cast<uint32_t>(k);
    }
    block_at[k] = static_cast<uint32_t>(blocks.size() - 1);
    blocks.back().end = static_cast<uint32_t>(k + 1);
  }
  uint32_t exit = static_cast<uint32_t>(blocks.size());
  block_at[code.size()] = exit;
  for (BasicBlock &block : blocks) {
    const Lowered &last = code[block.end - 1];
    auto to = [&](uint32_t index) {
      if (std::find(block.successors.begin(), block.successors.end(), block_at[index]) ==
          block.successors.end())
        block.successors.push_back(block_at[index]);
    };
    if (last.flow == Flow::next || (last.flow == Flow::branch && last.instruction.guard != no_offset))
      to(block.end);
    if (last.flow == Flow::branch)
      to(function.start_of_position[last.target]);
    if (last.flow == Flow::table)
      for (uint32_t position : tables[last.table])
        to(function.start_of_position[position]);
    if (last.flow == Flow::end)
      block.successors.push_back(exit);
    block.diverges =
        (last.flow == Flow::branch && last.instruction.guard != no_offset) || last.flow == Flow::table;
  }
  find_post_dominators(blocks);
  return blocks;
}

} // namespace emulator
