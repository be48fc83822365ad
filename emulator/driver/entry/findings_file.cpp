#include "findings_file.hpp"

#include "core/settings.hpp"
#include "entry.hpp"
#include "exec/interface/hexadecimal.hpp"
#include "json_lines.hpp"

#include <unistd.h>

namespace emulator::driver {
namespace {

constexpr size_t most_told = 10;

using Triple = std::array<uint32_t, 3>;

std::string numbers(const Triple &three) {
  return std::to_string(three[0]) + "," + std::to_string(three[1]) + "," + std::to_string(three[2]);
}

std::string field(const char *name, const std::string &value) {
  return std::string("\"") + name + "\":" + value + ",";
}

std::string written(const Side &side) {
  return "{" + field("instruction", quoted(side.instruction)) + field("file", quoted(side.file)) +
         field("line", std::to_string(side.line)) + field("text", std::to_string(side.text)) +
         field("ptx_line", std::to_string(side.ptx_line)) +
         field("block", "[" + (side.has_thread ? numbers(side.block) : "") + "]") + "\"thread\":[" +
         (side.has_thread ? numbers(side.thread) : "") + "]}";
}

const char *truth(bool value) { return value ? "true" : "false"; }

std::string written(const Finding &found) {
  std::string list = "[";
  for (const std::string &operand : found.operands)
    list += (list.size() == 1 ? "" : ",") + quoted(operand);
  list += ']';
  return "{" + field("check", quoted(check_names[static_cast<size_t>(found.check)])) +
         field("kind", quoted(finding_kind_names[static_cast<size_t>(found.kind)])) +
         field("space", quoted(found.space)) + field("variable", quoted(found.variable)) +
         field("allocation", std::to_string(found.allocation)) +
         field("offset", std::to_string(found.offset)) + field("bytes", std::to_string(found.bytes)) +
         field("same_value", truth(found.same_value)) + field("one_warp", truth(found.one_warp)) +
         field("asynchronous", truth(found.asynchronous)) + field("value", quoted(found.value)) +
         field("new_value", quoted(found.new_value)) +
         field("writer", found.has_writer ? written(found.writer) : "null") +
         field("writer_kernel", quoted(found.writer_kernel)) +
         field("earlier_kernel", quoted(found.earlier_kernel)) +
         field("earlier_launch", std::to_string(found.earlier_launch)) +
         field("count", std::to_string(found.count)) + field("operands", list) +
         field("result", quoted(found.result)) + field("first", written(found.first)) +
         "\"second\":" + (found.has_two_sides ? written(found.second) : "null") + "}";
}

// Of a check that compares no values nothing.
std::string values(const Finding &found) {
  if (found.result.empty())
    return found.value + (found.new_value.empty() ? "" : " -> " + found.new_value);
  std::string text;
  for (const std::string &operand : found.operands)
    text += (text.empty() ? "" : ", ") + operand;
  return (text.empty() ? "" : text + " ") + "-> " + found.result;
}

std::string place(const Side &side) {
  if (side.ptx_line == 0)
    return "a call of the host: " + side.instruction;
  std::string ptx = "PTX line " + std::to_string(side.ptx_line);
  return (side.file.empty() ? ptx : side.file + ":" + std::to_string(side.line) + " (" + ptx + ")") +
         (side.has_thread ? ", block (" + numbers(side.block) + "), thread (" + numbers(side.thread) + ")"
                          : "") +
         ": " + side.instruction;
}

void tell_finding(const std::string &kernel, const Finding &found) {
  std::string what = std::string(check_names[static_cast<size_t>(found.check)]) + ": " +
                     finding_kind_names[static_cast<size_t>(found.kind)];
  if (!found.space.empty())
    what += (found.same_value ? " (of the same value)" : "") + (" of " + std::to_string(found.bytes)) +
            " bytes of " + found.space + " memory at " +
            (found.allocation ? hexadecimal(found.allocation) + " + " : "") +
            (found.variable.empty() ? "" : found.variable + " + ") + std::to_string(found.offset);
  what += ", " + std::to_string(found.count) + " times\n  in kernel " + kernel + "\n  first  " +
          place(found.first);
  if (found.has_two_sides)
    what += "\n  second " + place(found.second);
  if (found.earlier_launch != 0)
    what +=
        "\n  the first in launch " + std::to_string(found.earlier_launch) + ", of " + found.earlier_kernel;
  if (found.has_writer)
    what += "\n  writer " + place(found.writer) +
            (found.writer_kernel.empty() ? "" : ", of " + found.writer_kernel);
  tell(what + (values(found).empty() ? "" : "\n  value  " + values(found)));
}

} // namespace

void append_findings(const std::string &kernel, const LaunchResult &result, uint64_t launch_number) {
  if (settings().checks.bits == 0)
    return;
  if (settings().findings.empty()) {
    for (size_t k = 0; k < std::min(result.findings.size(), most_told); ++k)
      tell_finding(kernel, result.findings[k]);
    if (result.findings.size() > most_told)
      tell("and " + std::to_string(result.findings.size() - most_told) + " more findings in kernel " +
           kernel);
    for (const Unchecked &left_out : result.unchecked)
      tell("kernel " + kernel + " is not checked for " + check_names[static_cast<size_t>(left_out.check)] +
           ": " + left_out.why);
    return;
  }
  std::string line = "{\"schema\":\"replay.emulator.findings/1\"," +
                     field("process", std::to_string(getpid())) +
                     field("launch", launch_number == no_launch ? "null" : std::to_string(launch_number)) +
                     field("kernel", quoted(kernel)) +
                     field("status", quoted(launch_status_names[static_cast<size_t>(result.status)])) +
                     field("message", quoted(result.message)) + "\"findings\":[";
  for (const Finding &found : result.findings)
    line += (&found == result.findings.data() ? "" : ",") + written(found);
  line += "],\"unchecked\":[";
  for (const Unchecked &left_out : result.unchecked)
    line += std::string(&left_out == result.unchecked.data() ? "" : ",") + "{" +
            field("check", quoted(check_names[static_cast<size_t>(left_out.check)])) +
            "\"why\":" + quoted(left_out.why) + "}";
  append_line("findings", settings().findings, line + "]}\n");
}

} // namespace emulator::driver
