#include "json_lines.hpp"

#include "entry/entry.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace emulator::driver {
namespace {

std::string of_process(std::string path) {
  for (size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at)) {
    std::string process = std::to_string(getpid());
    path.replace(at, 2, process);
    at += process.size();
  }
  return path;
}

void complain(const std::string &what, const std::string &path) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    tell(what + " are not written to " + path + ": " + std::strerror(errno));
}

} // namespace

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\')
      out.push_back('\\');
    if (c < 0x20 || c >= 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out.push_back(static_cast<char>(c));
    }
  }
  return out + "\"";
}

void append_line(const std::string &what, std::string path, const std::string &line) {
  // Opened for each line: cheap beside a launch, and right after a fork and after the file was moved away.
  // One write to a file opened with O_APPEND: lines of several threads and processes do not mix.
  path = of_process(std::move(path));
  int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    return complain(what, path);
  ssize_t written = write(file, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size()))
    complain(what, path);
  close(file);
}

} // namespace emulator::driver
