#include "touched_file.hpp"

#include "core/settings.hpp"
#include "json_lines.hpp"

#include <algorithm>
#include <vector>

namespace emulator::driver {
namespace {

const std::string what = "touched bytes";
const std::string head = "{\"schema\":\"replay.emulator.touched/1\",";

std::string list(const std::vector<uint64_t> &numbers) {
  std::string text;
  for (uint64_t number : numbers)
    text += (text.empty() ? "[" : ",") + std::to_string(number);
  return text.empty() ? "[]" : text + "]";
}

// First and end of each run of bytes, one after the other.
std::vector<uint64_t> runs(const TouchedPages &pages) {
  std::vector<uint64_t> order, found;
  for (const auto &page : pages)
    order.push_back(page.first);
  std::sort(order.begin(), order.end());
  for (uint64_t page : order) {
    const auto &bits = pages.at(page);
    for (uint64_t at = 0; at < touched_page_bytes; ++at) {
      if (at % 64 == 0 && bits[at / 64] == 0) {
        at += 63;
        continue;
      }
      if (!(bits[at / 64] >> at % 64 & 1))
        continue;
      uint64_t address = page * touched_page_bytes + at;
      if (found.empty() || found.back() != address)
        found.insert(found.end(), {address, address + 1});
      else
        ++found.back();
    }
  }
  return found;
}

} // namespace

void append_touched(const std::string &kernel, const LaunchResult &result) {
  if (settings().touched.empty())
    return;
  std::vector<uint64_t> checks(result.text_checks.begin(), result.text_checks.end());
  std::string line = head + "\"kernel\":" + quoted(kernel) + ",\"texts\":" + list(checks) + ",\"sites\":[";
  bool first = true;
  for (const auto &[key, pages] : result.touched) {
    const auto &[text, number, written, space] = key;
    line += std::string(first ? "" : ",") + "[" + std::to_string(text) + "," + std::to_string(number) + "," +
            (written ? "true" : "false") + ",\"" + touched_space_names[static_cast<size_t>(space)] + "\"," +
            list(runs(pages)) + "]";
    first = false;
  }
  append_line(what, settings().touched, line + "]}\n");
}

void append_copied(const TouchedSide &to, const TouchedSide &from, uint64_t width, uint64_t height,
                   uint64_t depth) {
  if (!settings().touched.empty())
    append_line(what, settings().touched,
                head + "\"copied\":" +
                    list({to.base, to.row_bytes, to.slice_bytes, from.base, from.row_bytes, from.slice_bytes,
                          width, height, depth}) +
                    "}\n");
}

void append_awaited(uint64_t address, uint64_t bytes) {
  if (!settings().touched.empty())
    append_line(what, settings().touched, head + "\"awaited\":" + list({address, bytes}) + "}\n");
}

} // namespace emulator::driver
