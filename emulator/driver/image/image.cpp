#include "image.hpp"

#include "lz4.hpp"
#include "readable.hpp"
#include "tile_ir.hpp"
#include "zstd.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace emulator::driver {
namespace {

constexpr uint32_t wrapper_magic = 0x466243B1;
constexpr uint32_t container_magic = 0xBA55ED50;
constexpr uint32_t elf_magic = 0x464C457F;
constexpr uint64_t largest_ptx_bytes = uint64_t{1} << 30; // a bound for what an entry may claim to unpack to
// What either compression can unpack to for each stored byte; a larger claim is false and need not be tried.
constexpr uint64_t largest_lz4_ratio = 255, largest_zstd_ratio = 128 << 10;
constexpr size_t least_tile_ir_bytes = 12, largest_tile_ir_bytes = size_t{64} << 20;
constexpr size_t most_prelinked = 65536;
constexpr std::string_view linked_mark = "// linked PTX texts: ", text_mark = "// text of bytes: ";
constexpr std::string_view registers_mark = "\n// at most so many registers: ";
constexpr size_t unknown_length = ~size_t{0};

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const void *container;
  const void *prelinked; // version 2: null-terminated array of containers
};
static_assert(sizeof(Wrapper) == 24);

struct ContainerHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t entries_bytes;
};
static_assert(sizeof(ContainerHeader) == 16);

struct EntryHeader {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t payload_bytes; // padded to 8
  uint32_t compressed_bytes;
  uint32_t options_offset;
  uint16_t minor, major;
  uint32_t sm;
  uint32_t name_offset, name_bytes;
  uint64_t flags;
  uint64_t zero;
  uint64_t unpacked_bytes;
};
static_assert(sizeof(EntryHeader) == 64);

enum Kind : uint16_t { kind_ptx = 1, kind_elf = 2, kind_lto = 8, kind_tile_ir = 0x80 };
enum Flag : uint64_t { flag_lz4 = 0x2000, flag_zstd = 0x8000, flag_exact = 0x100000, flag_family = 0x200000 };

template <typename T> T read(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[noreturn]] void refuse(CUresult code, std::string &log, const std::string &why) {
  log = why;
  fail(code);
}

// PTX runs on its own and later architectures, except the "a" (this one only) and "f" (this family) variants.
bool suits(uint32_t sm, bool exact, bool family, const setting::capability &device) {
  auto own = static_cast<uint32_t>(device.sm());
  if (exact)
    return sm == own;
  if (family)
    return sm / 10 == own / 10 && sm <= own;
  return sm <= own;
}

std::string unpacked(const EntryHeader &entry, const uint8_t *payload, std::string &log) {
  size_t stored = entry.compressed_bytes ? entry.compressed_bytes : entry.payload_bytes;
  if (!(entry.flags & (flag_lz4 | flag_zstd)))
    return std::string(reinterpret_cast<const char *>(payload), stored);
  bool lz4 = entry.flags & flag_lz4;
  if (entry.unpacked_bytes > largest_ptx_bytes)
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary: a PTX entry claims more than 1 GiB");
  if (entry.unpacked_bytes / (lz4 ? largest_lz4_ratio : largest_zstd_ratio) > stored)
    refuse(CUDA_ERROR_INVALID_IMAGE, log,
           "fat binary: a PTX entry of " + std::to_string(stored) + " bytes claims to unpack to " +
               std::to_string(entry.unpacked_bytes));
  if (!lz4 && !has_zstd())
    refuse(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, log,
           "fat binary: a PTX entry is compressed with ZSTD, and this machine has no libzstd.so.1; install "
           "the package "
           "that has it (libzstd1, libzstd), or compile with nvcc -no-compress");
  std::string text(entry.unpacked_bytes, '\0');
  if (lz4) {
    if (!decode_lz4_block(payload, stored, text))
      refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary: the LZ4 data of a PTX entry is damaged");
  } else if (const char *wrong = decode_zstd_frame(payload, stored, text)) {
    refuse(CUDA_ERROR_INVALID_IMAGE, log,
           std::string("fat binary: the ZSTD data of a PTX entry is damaged: ") + wrong);
  }
  return text;
}

struct Found {
  std::optional<PtxText> ptx;
  bool machine_code = false;
  bool intermediate_code = false; // LTO IR
  bool newer_ptx = false;         // for a later architecture than the device's
};

// The name of the source file that nvcc notes in an entry, for messages.
std::string file_name(const EntryHeader &entry, const uint8_t *begin) {
  if (entry.name_offset < sizeof(EntryHeader) || entry.name_offset > entry.header_bytes ||
      entry.name_bytes > entry.header_bytes - entry.name_offset)
    return {};
  auto *name = reinterpret_cast<const char *>(begin + entry.name_offset);
  return std::string(name, strnlen(name, entry.name_bytes));
}

Found search_container(const uint8_t *container, size_t available, const setting::capability &device,
                       std::string &log) {
  auto damaged = [&](const char *why) {
    refuse(CUDA_ERROR_INVALID_IMAGE, log, std::string("fat binary: ") + why);
  };
  // In memory nothing but the container's own numbers says how long it is.
  auto require_readable = [&](size_t bytes) {
    if (available == unknown_length && readable_bytes(container, bytes) < bytes)
      damaged("it claims more bytes than can be read where it lies");
  };
  if (available < sizeof(ContainerHeader))
    damaged("its header is cut short");
  require_readable(sizeof(ContainerHeader));
  auto header = read<ContainerHeader>(container);
  if (header.magic != container_magic || header.version != 1 || header.header_bytes < sizeof(ContainerHeader))
    damaged("the header is not one of version 1");
  if (available != unknown_length &&
      (header.header_bytes > available || header.entries_bytes > available - header.header_bytes))
    damaged("its entries are cut short");
  // All of it, for an entry could lead over pages that are not there to others that are.
  uint64_t whole = 0;
  if (__builtin_add_overflow(header.entries_bytes, uint64_t{header.header_bytes}, &whole))
    damaged("its entries are cut short");
  require_readable(whole);

  Found found;
  uint32_t best_sm = 0;
  const uint8_t *at = container + header.header_bytes;
  uint64_t left = header.entries_bytes;
  std::optional<EntryHeader> best;
  const uint8_t *best_begin = nullptr, *tile_begin = nullptr;
  while (left >= sizeof(EntryHeader)) {
    auto entry = read<EntryHeader>(at);
    if (entry.header_bytes < sizeof(EntryHeader) || entry.header_bytes > left ||
        entry.payload_bytes > left - entry.header_bytes || entry.compressed_bytes > entry.payload_bytes)
      damaged("an entry reaches past the end");
    found.machine_code |= entry.kind == kind_elf;
    found.intermediate_code |= entry.kind == kind_lto;
    bool exact = entry.flags & flag_exact, family = entry.flags & flag_family;
    if (entry.kind == kind_tile_ir)
      tile_begin = at;
    if (entry.kind == kind_ptx) {
      if (!suits(entry.sm, exact, family, device))
        found.newer_ptx = true;
      else if (!best || entry.sm > best_sm || (entry.sm == best_sm && exact)) {
        best = entry;
        best_sm = entry.sm;
        best_begin = at;
      }
    }
    at += entry.header_bytes + entry.payload_bytes;
    left -= entry.header_bytes + entry.payload_bytes;
  }
  if (best) {
    std::string text = unpacked(*best, best_begin + best->header_bytes, log);
    text.resize(strnlen(text.data(), text.size()));
    found.ptx = PtxText{file_name(*best, best_begin), std::move(text)};
  } else if (tile_begin) {
    auto entry = read<EntryHeader>(tile_begin);
    std::string code = unpacked(entry, tile_begin + entry.header_bytes, log);
    auto *bytes = reinterpret_cast<const uint8_t *>(code.data());
    if (!is_tile_ir(bytes, code.size()))
      damaged("an entry of Tile IR holds none");
    found.ptx = PtxText{file_name(entry, tile_begin), ptx_of_tile_ir(bytes, code.size(), device.sm(), log)};
  }
  return found;
}

std::string capability_name(const setting::capability &device) { return "sm_" + std::to_string(device.sm()); }

[[noreturn]] void no_ptx(const Found &found, const setting::capability &device, std::string &log) {
  if (found.newer_ptx)
    refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, log,
           "the image's PTX is for another architecture than " + capability_name(device) +
               "; compile for it, or set REPLAY_EMULATOR_COMPUTE_CAPABILITY");
  std::string advice = "build with nvcc -gencode arch=compute_80,code=compute_80";
  if (found.intermediate_code)
    refuse(
        CUDA_ERROR_NO_BINARY_FOR_GPU, log,
        "the image holds intermediate code for link-time optimisation (LTO IR) and no PTX, and nothing here "
        "compiles it; " +
            advice + ", without -dlto and code=lto_*, or let nvJitLink make PTX of it (-lto -ptx)");
  refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, log,
         "the image holds no PTX, and machine code (SASS) cannot run on a CPU; " + advice +
             " (CuPy: CUPY_COMPILE_WITH_PTX=1)");
}

// A linked image of relocatable device code holds machine code only; the PTX of each object is beside it.
std::vector<PtxText> texts_of_wrapper(const Wrapper &wrapper, const setting::capability &device,
                                      std::string &log) {
  if (!wrapper.container)
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary wrapper: it points to nothing");
  Found whole =
      search_container(static_cast<const uint8_t *>(wrapper.container), unknown_length, device, log);
  if (whole.ptx)
    return {std::move(*whole.ptx)};
  std::vector<PtxText> texts;
  if (wrapper.version == 2 && wrapper.prelinked) {
    auto *const *container = static_cast<const void *const *>(wrapper.prelinked);
    for (size_t c = 0; c < most_prelinked; ++c) {
      if (readable_bytes(container + c, sizeof *container) < sizeof *container)
        refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary wrapper: its list of containers cannot be read");
      if (!container[c])
        break;
      Found part = search_container(static_cast<const uint8_t *>(container[c]), unknown_length, device, log);
      if (part.ptx)
        texts.push_back(std::move(*part.ptx));
      whole.newer_ptx |= part.newer_ptx;
      whole.intermediate_code |= part.intermediate_code;
    }
  }
  if (texts.empty())
    no_ptx(whole, device, log);
  return texts;
}

// ".target sm_90a, ..." of a PTX text. Comments before it are skipped only as far as real compilers write
// them.
void require_target(const std::string &ptx, const setting::capability &device, std::string &log) {
  for (size_t at = ptx.find(".target"); at != std::string::npos; at = ptx.find(".target", at + 1)) {
    size_t before = at;
    while (before > 0 && (ptx[before - 1] == ' ' || ptx[before - 1] == '\t'))
      --before;
    if (before > 0 && ptx[before - 1] != '\n' && ptx[before - 1] != '\r')
      continue; // inside a comment
    size_t sm = ptx.find("sm_", at);
    if (sm == std::string::npos || sm > at + 32)
      return; // the executor's parser says what is wrong
    char *end = nullptr;
    auto number = static_cast<uint32_t>(std::strtoul(ptx.c_str() + sm + 3, &end, 10));
    if (!suits(number, *end == 'a', *end == 'f', device)) {
      size_t line_begin = ptx.rfind('\n', sm) + 1; // npos + 1 is 0
      refuse(CUDA_ERROR_INVALID_PTX, log,
             "line " +
                 std::to_string(1 + std::count(ptx.begin(), ptx.begin() + static_cast<ptrdiff_t>(sm), '\n')) +
                 ", column " + std::to_string(sm - line_begin + 1) + ": the PTX is for sm_" +
                 std::to_string(number) + (*end == 'a' || *end == 'f' ? std::string(1, *end) : "") +
                 ", which " + capability_name(device) + " cannot run (REPLAY_EMULATOR_COMPUTE_CAPABILITY)");
    }
    return;
  }
}

// What joined() made. Damage is told like that of any other container.
std::vector<PtxText> separated(std::string_view image, const setting::capability &device, std::string &log) {
  auto line_after = [&](std::string_view mark) {
    size_t end = image.find('\n');
    if (image.substr(0, mark.size()) != mark || end == std::string_view::npos)
      refuse(CUDA_ERROR_INVALID_IMAGE, log, "linked PTX texts: the image is damaged");
    std::string_view line = image.substr(mark.size(), end - mark.size());
    image.remove_prefix(end + 1);
    return line;
  };
  auto number_of = [](std::string_view digits) {
    return std::strtoull(std::string(digits.substr(0, 18)).c_str(), nullptr, 10);
  };
  std::vector<PtxText> texts;
  for (uint64_t left = number_of(line_after(linked_mark)); left > 0; --left) {
    std::string_view line = line_after(text_mark);
    size_t space = std::min(line.find(' '), line.size());
    uint64_t length = number_of(line.substr(0, space));
    if (length > image.size())
      refuse(CUDA_ERROR_INVALID_IMAGE, log, "linked PTX texts: the image is cut short");
    texts.push_back(
        {std::string(line.substr(std::min(space + 1, line.size()))), std::string(image.substr(0, length))});
    require_target(texts.back().text, device, log);
    image.remove_prefix(length);
  }
  if (texts.empty())
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "linked PTX texts: the image holds none");
  return texts;
}

} // namespace

void note_register_limit(std::vector<PtxText> &texts, unsigned most) {
  for (PtxText &text : texts)
    text.text += std::string(registers_mark) + std::to_string(most) + "\n";
}

unsigned register_limit(const std::vector<PtxText> &texts) {
  constexpr size_t most_digits = 10;
  for (const PtxText &text : texts) {
    size_t reach = registers_mark.size() + most_digits + 1;
    size_t at = text.text.find(registers_mark, text.text.size() - std::min(text.text.size(), reach));
    if (at != std::string::npos)
      return static_cast<unsigned>(std::strtoul(text.text.c_str() + at + registers_mark.size(), nullptr, 10));
  }
  return 0;
}

std::string joined(const std::vector<PtxText> &texts) {
  if (texts.size() == 1)
    return texts[0].text;
  std::string image = std::string(linked_mark) + std::to_string(texts.size()) + "\n";
  for (const PtxText &text : texts) {
    std::string name = text.name.substr(0, 1024);
    for (char &c : name)
      c = c == '\n' || c == '\0' ? '?' : c;
    image += std::string(text_mark) + std::to_string(text.text.size()) + " " + name + "\n" + text.text;
  }
  return image;
}

std::vector<PtxText> texts_of_image(const void *image, size_t bytes, const setting::capability &device,
                                    std::string &log) {
  if (!image)
    fail(CUDA_ERROR_INVALID_VALUE);
  auto *start = static_cast<const uint8_t *>(image);
  size_t beginning = bytes == unknown_length ? readable_bytes(image, 4) : bytes;
  if (bytes == unknown_length && beginning == 0)
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "the image cannot be read where it is said to lie");
  // Compared byte by byte, so that a text shorter than a magic number is not read past its end.
  auto begins_with = [&](uint32_t magic) {
    for (size_t i = 0; i < sizeof magic; ++i)
      if (i >= beginning || start[i] != ((magic >> (8 * i)) & 0xff))
        return false;
    return true;
  };
  if (begins_with(wrapper_magic)) {
    if (bytes != unknown_length) // a file cannot hold a pointer
      refuse(CUDA_ERROR_INVALID_IMAGE, log,
             "the file begins with a fat binary wrapper, which exists only in memory");
    if (readable_bytes(image, sizeof(Wrapper)) < sizeof(Wrapper))
      refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary wrapper: it is cut short");
    auto wrapper = read<Wrapper>(image);
    if (wrapper.version != 1 && wrapper.version != 2)
      refuse(CUDA_ERROR_INVALID_IMAGE, log, "fat binary wrapper: its version is neither 1 nor 2");
    return texts_of_wrapper(wrapper, device, log);
  }
  if (begins_with(container_magic)) {
    Found found = search_container(start, bytes, device, log);
    if (!found.ptx)
      no_ptx(found, device, log);
    return {std::move(*found.ptx)};
  }
  if (begins_with(elf_magic))
    no_ptx({}, device, log);
  auto readable = [&](size_t most) { return bytes == unknown_length ? readable_bytes(image, most) : bytes; };
  if (is_tile_ir(start, readable(least_tile_ir_bytes)))
    return {{"", ptx_of_tile_ir(start, readable(largest_tile_ir_bytes), device.sm(), log)}};
  auto *words = reinterpret_cast<const char *>(start);
  bool ends = true;
  size_t length = bytes == unknown_length ? readable_length(words, ends) : strnlen(words, bytes);
  if (!ends)
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "the image is a text without a NUL at its end");
  std::string text(words, length);
  if (text.compare(0, linked_mark.size(), linked_mark) == 0)
    return separated(text, device, log);
  if (text.find(".version") == std::string::npos)
    refuse(CUDA_ERROR_INVALID_IMAGE, log, "the image is neither PTX, nor a fat binary, nor a cubin");
  require_target(text, device, log);
  return {{"", std::move(text)}};
}

std::vector<PtxText> texts_of_image(const void *image, const setting::capability &device, std::string &log) {
  return texts_of_image(image, unknown_length, device, log);
}

} // namespace emulator::driver
