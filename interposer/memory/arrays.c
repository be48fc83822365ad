// CUDA arrays: memory that has a handle and no address.
//
// Each array gets a range of its own among those of memory, at an address that no memory can have and that
// is used once in a process. There its subresources (mipmap levels, planes) lie one after another, their rows
// tightly packed, so what is true of a range is true of an array: touched, read twice, ended with its
// context.
#include "memory/arrays.h"

#include "driver/real.h"
#include "generated/structs.h"

enum { ARRAY_LAYERED = 1, ARRAY_CUBEMAP = 4, ARRAY_SPARSE = 0x40, ARRAY_DEFERRED_MAPPING = 0x80 };
enum { MAX_PLANES = 3 };

// A handle: an array, or a level or plane of one.
struct array {
  uint64_t handle, base, context;
  bool mipmapped;
  struct array_layout *layout; // NULL for a level or plane
  uint32_t level, plane;
};

static MUTEX(lock);
static ZERO_IN_CHILD struct array *arrays;
static ZERO_IN_CHILD size_t array_count, array_capacity;
static uint64_t next_base = ARRAY_ADDRESSES;

// ---- layout -------------------------------------------------------------------------------------

struct plane {
  uint32_t width_shift, height_shift, element_bytes;
};

// Bytes: of a channel, of an element, or of a channel of the two planes: luminance, and chrominance at half
// the width (422) or half the width and height (420). Block compression and packed video are not known here.
// Those with planes are not yet seen on a GPU (GT-PLANE-FORMATS).
enum packing { PER_CHANNEL, PER_ELEMENT, PLANES_422, PLANES_420 };
static const struct {
  uint8_t format, bytes; // CU_AD_FORMAT_
  enum packing packing;
} formats[] = {
    {0x01, 1, PER_CHANNEL}, {0x08, 1, PER_CHANNEL}, // UNSIGNED_INT8, SIGNED_INT8
    {0x02, 2, PER_CHANNEL}, {0x09, 2, PER_CHANNEL}, // UNSIGNED_INT16, SIGNED_INT16
    {0x03, 4, PER_CHANNEL}, {0x0a, 4, PER_CHANNEL}, // UNSIGNED_INT32, SIGNED_INT32
    {0x10, 2, PER_CHANNEL}, {0x20, 4, PER_CHANNEL}, // HALF, FLOAT
    {0x50, 4, PER_ELEMENT},                         // UNORM_INT_101010_2
    {0xa2, 1, PLANES_422},  {0xb0, 1, PLANES_420},  // NV16, NV12
    {0xa3, 2, PLANES_422},  {0x9f, 2, PLANES_420},  // P210, P010
    {0xa4, 2, PLANES_422},  {0xa1, 2, PLANES_420},  // P216, P016
};
enum { FORMATS = sizeof formats / sizeof *formats };

// The planes of an element; 0: a format that is not known.
static unsigned planes_of(uint32_t format, uint32_t channels, struct plane planes[MAX_PLANES]) {
  uint32_t n = 0, norm = format - 0xc0; // CU_AD_FORMAT_UNORM_* and SNORM_*: the channels are in the name
  if (norm <= 0xb) {
    planes[0] = (struct plane){0, 0, (1 + norm / 3 % 2) << norm % 3};
    return 1;
  }
  while (n < FORMATS && formats[n].format != format)
    n++;
  if (n == FORMATS || (formats[n].packing == PER_CHANNEL && channels != 1 && channels != 2 && channels != 4))
    return 0;
  planes[0] = (struct plane){0, 0, formats[n].bytes * (formats[n].packing == PER_CHANNEL ? channels : 1)};
  planes[1] = (struct plane){1, formats[n].packing == PLANES_420, 2 * formats[n].bytes};
  return formats[n].packing >= PLANES_422 ? 2 : 1;
}

static uint64_t halved(uint64_t extent, uint32_t times) {
  return extent == 0 || extent >> times != 0 ? extent >> times : 1;
}

// Documented for cuMipmappedArrayCreate: at least 1, at most 1 + floor(log2(largest extent)).
static uint32_t levels_of(const struct CUDA_ARRAY3D_DESCRIPTOR *d, bool layers, uint32_t asked) {
  uint64_t largest = d->Width > d->Height ? d->Width : d->Height;
  if (!layers && d->Depth > largest)
    largest = d->Depth;
  uint32_t most = 1;
  while (most < MAX_ARRAY_PARTS && largest >> most != 0)
    most++;
  return asked < 1 ? 1 : asked > most ? most : asked;
}

static const char *lay_out(const struct CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped, uint32_t levels,
                           struct array_layout *layout) {
  struct plane planes[MAX_PLANES];
  unsigned plane_count = planes_of(d->Format, d->NumChannels, planes);
  if ((d->Flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING)) != 0)
    return "it has no memory of its own (sparse or mapped later)";
  if (plane_count == 0)
    return "elements of this format are not known";
  bool layers = (d->Flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)) != 0;
  levels = mipmapped ? levels_of(d, layers, levels) : 1;
  *layout = (struct array_layout){0};
  for (uint32_t level = 0; level < levels; level++)
    for (uint32_t number = 0; number < plane_count && layout->count < MAX_ARRAY_PARTS; number++) {
      uint64_t rows = halved(d->Height, level) >> planes[number].height_shift;
      uint64_t slices = layers ? d->Depth : halved(d->Depth, level);
      struct array_part *part = &layout->parts[layout->count++];
      *part = (struct array_part){
          .level = level, .plane = number, .rows = rows == 0 ? 1 : rows, .slices = slices == 0 ? 1 : slices};
      uint64_t slice, bytes;
      if (__builtin_mul_overflow(halved(d->Width, level) >> planes[number].width_shift,
                                 planes[number].element_bytes, &part->width_bytes) ||
          __builtin_mul_overflow(part->width_bytes, part->rows, &slice) ||
          __builtin_mul_overflow(slice, part->slices, &bytes) || bytes == 0 || bytes > MAX_ARRAY_BYTES)
        return "its size makes no sense";
      layout->bytes += bytes;
    }
  return layout->bytes > MAX_ARRAY_BYTES ? "its size makes no sense" : NULL;
}

// ---- the table of handles -----------------------------------------------------------------------

static struct array *find(uint64_t handle, bool mipmapped) {
  for (size_t n = 0; n < array_count; n++)
    if (arrays[n].handle == handle && arrays[n].mipmapped == mipmapped)
      return &arrays[n];
  return NULL;
}

static void remove_at(size_t position) {
  free(arrays[position].layout);
  arrays[position] = arrays[--array_count];
}

static void add(const struct array *array) {
  struct array *same = find(array->handle, array->mipmapped); // its end was not seen
  if (same != NULL)
    remove_at((size_t)(same - arrays));
  if (HAS_ROOM(arrays, array_count, array_capacity))
    arrays[array_count++] = *array;
  else
    free(array->layout);
}

const struct array_layout *arrays_add(uint64_t handle, const struct CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                                      bool mipmapped, uint32_t levels, const char **problem) {
  struct array_layout *layout = malloc(sizeof *layout);
  *problem = layout != NULL ? lay_out(descriptor, mipmapped, levels, layout) : "no memory to remember it";
  if (*problem != NULL) {
    free(layout);
    return NULL;
  }
  uint64_t context = current_context();
  pthread_mutex_lock(&lock);
  layout->base = next_base;
  next_base += (layout->bytes + 0xffff) / 0x10000 * 0x10000 + 0x10000;
  add(&(struct array){
      .handle = handle, .base = layout->base, .context = context, .mipmapped = mipmapped, .layout = layout});
  pthread_mutex_unlock(&lock);
  memory_add((struct range){.base = layout->base,
                            .bytes = layout->bytes,
                            .kind = RANGE_ARRAY,
                            .context = context,
                            .owner = handle});
  return layout;
}

void arrays_add_part(uint64_t handle, uint64_t parent, bool mipmapped, uint32_t number) {
  HOLD(lock);
  const struct array *owner = find(parent, mipmapped);
  if (owner == NULL || handle == 0 || handle == parent)
    return;
  struct array part = *owner;
  part.handle = handle;
  part.mipmapped = false;
  part.layout = NULL;
  *(mipmapped ? &part.level : &part.plane) = number;
  add(&part);
}

uint64_t array_base(uint64_t handle, bool mipmapped) {
  HOLD(lock);
  const struct array *array = find(handle, mipmapped);
  return array != NULL ? array->base : 0;
}

static void remove_all(bool by_context, uint64_t value) {
  HOLD(lock);
  for (size_t n = array_count; n-- > 0;)
    if ((by_context ? arrays[n].context : arrays[n].base) == value)
      remove_at(n);
}

void arrays_remove(uint64_t base) {
  memory_remove(base, 0);
  remove_all(false, base);
}

void arrays_remove_context(uint64_t context) { remove_all(true, context); }

// ---- contents -----------------------------------------------------------------------------------

// The array of one part: levels and planes are asked for by the functions that exist for them.
static int handle_of_part(uint64_t owner, bool mipmapped, const struct array_layout *layout, unsigned part,
                          uint64_t *handle) {
  *handle = owner;
  int result = SUCCESS;
  if (mipmapped)
    result = ASK("cuMipmappedArrayGetLevel", word(handle), owner, layout->parts[part].level);
  bool planar = layout->count > 1 && layout->parts[1].plane == 1;
  if (result == SUCCESS && planar)
    result = ASK("cuArrayGetPlane", word(handle), *handle, layout->parts[part].plane);
  return result;
}

// Copies bytes [at, at + bytes) of a part: the rest of a row, or whole rows of a slice. Returns how many.
static uint64_t next_box(const struct array_part *part, uint64_t at, uint64_t bytes,
                         struct CUDA_MEMCPY3D *copy) {
  uint64_t row = at / part->width_bytes, rows = part->rows - row % part->rows;
  copy->srcXInBytes = at % part->width_bytes;
  copy->srcY = row % part->rows;
  copy->srcZ = row / part->rows;
  copy->WidthInBytes = part->width_bytes - copy->srcXInBytes;
  copy->Height = copy->Depth = 1;
  if (bytes < copy->WidthInBytes)
    copy->WidthInBytes = bytes;
  else if (copy->srcXInBytes == 0)
    copy->Height = bytes / part->width_bytes < rows ? bytes / part->width_bytes : rows;
  return copy->WidthInBytes * copy->Height;
}

int read_array(uint64_t base, uint64_t offset, size_t bytes, uint8_t *destination) {
  struct array_layout layout = {0};
  uint64_t owner = 0;
  bool mipmapped = false;
  pthread_mutex_lock(&lock);
  for (size_t n = 0; n < array_count; n++)
    if (arrays[n].base == base && arrays[n].layout != NULL) {
      layout = *arrays[n].layout;
      owner = arrays[n].handle;
      mipmapped = arrays[n].mipmapped;
    }
  pthread_mutex_unlock(&lock);
  if (owner == 0)
    return ERROR_INVALID_HANDLE;
  uint64_t start = 0; // of the part
  for (unsigned n = 0; n < layout.count && bytes > 0; n++) {
    const struct array_part *part = &layout.parts[n];
    uint64_t size = part->width_bytes * part->rows * part->slices, handle = 0;
    for (bool first = true; bytes > 0 && offset < start + size; first = false) {
      int result = first ? handle_of_part(owner, mipmapped, &layout, n, &handle) : SUCCESS;
      if (result != SUCCESS)
        return result;
      uint64_t left = start + size - offset;
      struct CUDA_MEMCPY3D box = {.srcMemoryType = MEMORY_ARRAY,
                                  .srcArray = handle,
                                  .dstMemoryType = MEMORY_HOST,
                                  .dstHost = (uint64_t)(uintptr_t)destination};
      uint64_t done = next_box(part, offset - start, bytes < left ? bytes : left, &box);
      box.dstPitch = box.WidthInBytes;
      box.dstHeight = box.Height;
      result = ASK("cuMemcpy3D_v2", word(&box));
      if (result != SUCCESS)
        return result;
      destination += done;
      offset += done;
      bytes -= (size_t)done;
    }
    start += size;
  }
  return SUCCESS;
}
