// Module images: their size, which no call passes but which is in the image itself, and where they are.
#include "record/encode.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRAPPER_MAGIC = 0x466243b1, ELF_MAGIC = 0x464c457f, MAX_PRELINKED = 48 };
static const uint32_t container_magic = 0xba55ed50;
static const uint8_t tile_ir_magic[8] = "\x7fTileIR"; // the bytecode of CUDA Tile

// What cudart hands over: the container is elsewhere, in the program's own data.
struct wrapper {
  uint32_t magic, version;
  const void *container;
  const void *const *prelinked; // version 2 (relocatable device code): ends with NULL
};

struct container_header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t entries_bytes;
};

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t elf_bytes(const uint8_t *image) {
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64)
    return 0;
  uint64_t end = larger(header.e_shoff + (uint64_t)header.e_shnum * header.e_shentsize,
                        header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize);
  for (unsigned n = 0; n < header.e_shnum; n++) {
    Elf64_Shdr section;
    memcpy(&section, image + header.e_shoff + (uint64_t)n * header.e_shentsize, sizeof section);
    if (section.sh_type != SHT_NOBITS)
      end = larger(end, section.sh_offset + section.sh_size);
  }
  for (unsigned n = 0; n < header.e_phnum; n++) {
    Elf64_Phdr program;
    memcpy(&program, image + header.e_phoff + (uint64_t)n * header.e_phentsize, sizeof program);
    end = larger(end, program.p_offset + program.p_filesz);
  }
  return end;
}

static uint64_t tile_ir_number(const uint8_t **at) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80)
      break;
  }
  return value;
}

// Sections of a type, a length and an alignment, up to one of type 0. 0: it is not of this form.
static uint64_t tile_ir_bytes(const uint8_t *image) {
  enum { HEADER_BYTES = 12, LAST_SECTION = 6, ALIGNED = 0x80, MAX_ALIGNMENT = 4096 };
  const uint8_t *at = image + HEADER_BYTES;
  for (unsigned sections = 0; sections <= LAST_SECTION; sections++) {
    uint8_t header = *at++;
    if ((header & ~ALIGNED) == 0)
      return (uint64_t)(at - image);
    uint64_t length = tile_ir_number(&at), alignment = (header & ALIGNED) != 0 ? tile_ir_number(&at) : 1;
    if ((header & ~ALIGNED) > LAST_SECTION || length > UINT32_MAX || alignment == 0 ||
        alignment > MAX_ALIGNMENT)
      return 0;
    uint64_t offset = (uint64_t)(at - image);
    at += (alignment - offset % alignment) % alignment + length;
  }
  return 0;
}

static uint64_t image_bytes(const void *image) {
  uint32_t magic;
  memcpy(&magic, image, 1); // PTX may be shorter than a word
  uint8_t first = *(const uint8_t *)image;
  if (first == '\0')
    return 0;
  if (first == '.' || first == '/' || first == ' ' || first == '\n' || first == '\t' || first == '\r')
    return strlen(image);
  memcpy(&magic, image, sizeof magic);
  if (magic == ELF_MAGIC)
    return elf_bytes(image);
  if (first == tile_ir_magic[0] && memcmp(image, tile_ir_magic, sizeof tile_ir_magic) == 0)
    return tile_ir_bytes(image);
  if (magic == container_magic) {
    struct container_header header;
    memcpy(&header, image, sizeof header);
    return header.header_bytes + header.entries_bytes;
  }
  return 0;
}

// ---- images inside loaded files -----------------------------------------------------------------

// A library with kernels may hold hundreds of megabytes of them, and few are launched. What is in a
// segment that nobody can write is in the file as well: only the place is recorded, and `replay pack` reads
// it.
enum { LEAST_MAPPED_BYTES = 65536, SAMPLE_BYTES = 4096 };

struct place {
  uint64_t address, bytes;
  uint64_t offset;  // in the file
  const char *name; // NULL: in none
};

static int look_into_object(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct place *place = data;
  for (unsigned n = 0; n < object->dlpi_phnum; n++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[n];
    uint64_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0 || place->address < start ||
        place->bytes > segment->p_filesz || place->address - start > segment->p_filesz - place->bytes)
      continue;
    place->offset = segment->p_offset + (place->address - start);
    place->name = object->dlpi_name;
    return 1;
  }
  return 0;
}

// The file may have been replaced since it was loaded, so both ends of the image are compared.
static bool same_bytes(int descriptor, uint64_t offset, const uint8_t *image, uint64_t bytes,
                       uint32_t *check) {
  uint8_t sample[SAMPLE_BYTES];
  *check = 0;
  for (int n = 0; n < 2; n++) {
    uint64_t at = n == 0 ? 0 : bytes - SAMPLE_BYTES;
    if (pread(descriptor, sample, sizeof sample, (off_t)(offset + at)) != (ssize_t)sizeof sample ||
        memcmp(sample, image + at, sizeof sample) != 0)
      return false;
    *check = crc32c(*check, sample, sizeof sample);
  }
  return true;
}

static bool attach_mapped(struct call *call, unsigned parameter, unsigned part, const void *image,
                          uint64_t bytes) {
  struct place place = {.address = (uint64_t)(uintptr_t)image, .bytes = bytes};
  if (bytes < LEAST_MAPPED_BYTES)
    return false;
  dl_iterate_phdr(look_into_object, &place);
  char *path =
      place.name != NULL ? realpath(place.name[0] != '\0' ? place.name : "/proc/self/exe", NULL) : NULL;
  int descriptor = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  struct stat status;
  uint32_t check;
  bool attached = false;
  if (descriptor >= 0 && fstat(descriptor, &status) == 0 &&
      same_bytes(descriptor, place.offset, image, bytes, &check)) {
    size_t path_bytes = without_home(path);
    uint64_t words[6] = {place.offset,
                         (uint64_t)status.st_dev,
                         (uint64_t)status.st_ino,
                         (uint64_t)status.st_size,
                         (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec,
                         path_bytes};
    uint8_t *reference = take_scratch(call, sizeof words + path_bytes);
    if (reference != NULL) {
      memcpy(reference, words, sizeof words);
      memcpy(reference + sizeof words, path, path_bytes);
      attached = add_attachment(call, (struct attachment){.parameter = (uint16_t)parameter,
                                                          .part = (uint8_t)part,
                                                          .storage = STORAGE_FILE,
                                                          .check = check,
                                                          .length = bytes,
                                                          .data = reference,
                                                          .data_bytes = sizeof words + path_bytes}) != NULL;
    }
  }
  if (descriptor >= 0)
    close(descriptor);
  free(path);
  return attached;
}

// ---- attaching ----------------------------------------------------------------------------------

static bool attach_one(struct call *call, unsigned parameter, unsigned part, const void *image) {
  uint64_t bytes = image != NULL ? image_bytes(image) : 0;
  if (bytes == 0) {
    write_note(NOTE_IMAGE_UNKNOWN, call->record_function, call->number,
               "neither PTX nor ELF nor Tile IR nor a fat binary at %p", image);
    return false;
  }
  return attach_mapped(call, parameter, part, image, bytes) ||
         attach_unsafe(call, parameter, part, image, bytes);
}

void attach_image(struct call *call, unsigned parameter, const void *image) {
  struct wrapper wrapper;
  uint32_t magic = 0;
  if (*(const uint8_t *)image == (WRAPPER_MAGIC & 0xff))
    memcpy(&magic, image, sizeof magic);
  if (magic != WRAPPER_MAGIC) {
    attach_one(call, parameter, 0, image);
    return;
  }
  memcpy(&wrapper, image, sizeof wrapper);
  if (!attach_one(call, parameter, 0, wrapper.container) || wrapper.version != 2 || wrapper.prelinked == NULL)
    return;
  for (unsigned n = 0; n < MAX_PRELINKED && wrapper.prelinked[n] != NULL; n++)
    attach_one(call, parameter, 1 + n, wrapper.prelinked[n]);
}
