// CUDA arrays: memory that has a handle and no address.
//
// Each array gets a range of its own among those of memory, at an address that no memory can have and that
// is used once in a process. There its subresources (mipmap levels, planes) lie one after another, their rows
// tightly packed, so what is true of a range is true of an array: touched, read before and after, ended with
// its context.
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

// The planes of an element; 0: a format that is not known here (block compression, packed video).
static unsigned planes_of(uint32_t format, uint32_t channels, struct plane planes[MAX_PLANES]) {
  uint32_t bytes = 0, chroma_height_shift = 1;
  switch (format) {
  case 0x01: // CU_AD_FORMAT_UNSIGNED_INT8, SIGNED_INT8
  case 0x08:
    bytes = 1;
    break;
  case 0x02: // CU_AD_FORMAT_UNSIGNED_INT16, SIGNED_INT16, HALF
  case 0x09:
  case 0x10:
    bytes = 2;
    break;
  case 0x03: // CU_AD_FORMAT_UNSIGNED_INT32, SIGNED_INT32, FLOAT
  case 0x0a:
  case 0x20:
    bytes = 4;
    break;
  case 0x50: // CU_AD_FORMAT_UNORM_INT_101010_2
    planes[0] = (struct plane){0, 0, 4};
    return 1;
  case 0xa2: // CU_AD_FORMAT_NV16, P210, P216: luminance, and chrominance at half the width
  case 0xa3:
  case 0xa4:
    chroma_height_shift = 0;
    // fallthrough
  case 0xb0: // CU_AD_FORMAT_NV12, P010, P016: at half the width and height. Not yet seen on a GPU
             // (GT-PLANE-FORMATS).
  case 0x9f:
  case 0xa1:
    bytes = format == 0xb0 || format == 0xa2 ? 1 : 2;
    planes[0] = (struct plane){0, 0, bytes};
    planes[1] = (struct plane){1, chroma_height_shift, 2 * bytes};
    return 2;
  default:
    if (format < 0xc0 || format > 0xcb) // CU_AD_FORMAT_UNORM_* and SNORM_*: the channels are in the name
      return 0;
    channels = 1u << ((format - 0xc0) % 3);
    bytes = (format - 0xc0) / 3 % 2 == 0 ? 1 : 2;
  }
  if (channels != 1 && channels != 2 && channels != 4)
    return 0;
  planes[0] = (struct plane){0, 0, bytes * channels};
  return 1;
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

// Copies bytes [at, at + bytes) of a part: the rest of a row, of a slice, or whole slices. Returns how many.
static uint64_t next_box(const struct array_part *part, uint64_t at, uint64_t bytes,
                         struct CUDA_MEMCPY3D *copy) {
  uint64_t slice = part->width_bytes * part->rows, row = at % slice / part->width_bytes;
  copy->srcXInBytes = at % part->width_bytes;
  copy->srcY = row;
  copy->srcZ = at / slice;
  copy->WidthInBytes = part->width_bytes;
  copy->Height = copy->Depth = 1;
  if (copy->srcXInBytes != 0 || bytes < part->width_bytes) {
    uint64_t left = part->width_bytes - copy->srcXInBytes;
    copy->WidthInBytes = left < bytes ? left : bytes;
  } else if (row != 0 || bytes < slice) {
    uint64_t rows = bytes / part->width_bytes, left = part->rows - row;
    copy->Height = rows < left ? rows : left;
  } else {
    copy->Height = part->rows;
    copy->Depth = bytes / slice;
  }
  return copy->WidthInBytes * copy->Height * copy->Depth;
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
