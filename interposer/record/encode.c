// ENTER and LEAVE records: one path for every function, driven by the roles of its parameters.
#include "record/encode.h"

#include "driver/real.h"

enum { BLOB_PIECE_BYTES = 65536 };

// ---- attachments --------------------------------------------------------------------------------

void *take_scratch(struct call *call, size_t bytes) {
  size_t start = (call->scratch_used + 15u) & ~(size_t)15;
  if (bytes > SCRATCH_BYTES - start)
    return NULL;
  call->scratch_used = (uint32_t)(start + bytes);
  return call->thread->scratch + start;
}

struct attachment *add_attachment(struct call *call, struct attachment item) {
  if (call->attachment_count >= MAX_ATTACHMENTS)
    return NULL;
  struct attachment *place = &call->attachments[call->attachment_count++];
  *place = item;
  return place;
}

static void set_place(struct attachment *item, uint64_t offset, uint32_t check) {
  item->storage = STORAGE_BLOB;
  item->offset = offset;
  item->check = check;
  item->data = &item->offset;
  item->data_bytes = sizeof item->offset;
}

bool set_bytes(struct attachment *item, const void *data, uint64_t length) {
  item->data = data;
  item->length = length;
  item->data_bytes = (uint32_t)length;
  if (length <= INLINE_BYTES)
    return true;
  set_place(item, reserve_blob(length), crc32c(0, data, length));
  return write_blob(item->offset, data, length);
}

void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length) {
  struct attachment *item =
      add_attachment(call, (struct attachment){.parameter = (uint16_t)parameter, .part = (uint8_t)part});
  if (item != NULL)
    set_bytes(item, data, length);
}

// Into the blobs file in pieces through the scratch: the check is that of the bytes that were written.
static bool attach_large(struct call *call, struct attachment item, const uint8_t *from) {
  uint32_t used = call->scratch_used, check = 0;
  uint8_t *piece = take_scratch(call, BLOB_PIECE_BYTES);
  call->scratch_used = used;
  if (piece == NULL || call->attachment_count >= MAX_ATTACHMENTS || !read_memory(piece, from, 1) ||
      !read_memory(piece, from + item.length - 1, 1))
    return false;
  uint64_t offset = reserve_blob(item.length);
  for (uint64_t done = 0; done < item.length; done += BLOB_PIECE_BYTES) {
    size_t bytes = item.length - done < BLOB_PIECE_BYTES ? (size_t)(item.length - done) : BLOB_PIECE_BYTES;
    if (!read_memory(piece, from + done, bytes) || !write_blob(offset + done, piece, bytes))
      return false;
    check = crc32c(check, piece, bytes);
  }
  set_place(add_attachment(call, item), offset, check);
  return true;
}

bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length) {
  struct attachment item = {.parameter = (uint16_t)parameter, .part = (uint8_t)part, .length = length};
  if (length > INLINE_BYTES)
    return attach_large(call, item, data);
  void *copy = take_scratch(call, length);
  if (copy == NULL || !read_memory(copy, data, length))
    return false;
  attach(call, parameter, part, copy, length);
  return true;
}

// ---- values -------------------------------------------------------------------------------------

static uint64_t factor(const struct call *call, unsigned position) {
  const struct parameter *parameter = parameter_of(call->function, position);
  uint64_t value = call->arguments[position];
  if (value != 0 && (parameter->role == ROLE_OUT || parameter->role == ROLE_INOUT)) {
    value = 0;
    memcpy(&value, pointer_argument(call, position),
           parameter->element_bytes < 8 ? parameter->element_bytes : 8);
  }
  return value;
}

uint64_t term_value(const struct call *call, const struct term *term) {
  uint64_t value = term->scale;
  if (value == 0) // no such term
    return 0;
  if (term->first >= 0)
    value *= factor(call, (unsigned)term->first);
  if (term->second >= 0)
    value *= factor(call, (unsigned)term->second);
  return value;
}

// ---- records ------------------------------------------------------------------------------------

// After its two words comes what is in the record itself.
static size_t attachments_bytes(const struct call *call) {
  size_t bytes = 0;
  for (unsigned n = 0; n < call->attachment_count; n++)
    bytes += 16 + (call->attachments[n].data_bytes + 7) / 8 * 8;
  return bytes;
}

static void put_attachments(struct record *record, const struct call *call) {
  for (unsigned n = 0; n < call->attachment_count; n++) {
    const struct attachment *item = &call->attachments[n];
    put_u64(record, item->parameter | (uint64_t)item->part << 16 | (uint64_t)item->storage << 24 |
                        (uint64_t)item->check << 32);
    put_u64(record, item->length);
    put_bytes(record, item->data, item->data_bytes);
  }
}

void attach_inputs(struct call *call) {
  const struct function *function = call->function;
  if (!(function->flags & FLAG_INPUTS))
    return;
  for (unsigned n = 0; n < function->parameter_count; n++) {
    const struct parameter *parameter = parameter_of(function, n);
    const void *pointer = pointer_argument(call, n);
    if (pointer == NULL)
      continue;
    switch (parameter->role) {
    case ROLE_IN:
    case ROLE_INOUT:
    case ROLE_HOST_READ: {
      uint64_t bytes = term_value(call, &parameter->count) * parameter->element_bytes;
      if (bytes > 0 || parameter->role == ROLE_HOST_READ) // a copy of nothing, too
        attach_unsafe(call, n, 0, pointer, bytes);
      break;
    }
    case ROLE_STRING:
      attach(call, n, 0, pointer, strlen(pointer));
      break;
    case ROLE_IMAGE:
      attach_image(call, n, pointer);
      break;
    default:
      break;
    }
  }
}

void attach_outputs(struct call *call, int result) {
  const struct function *function = call->function;
  // ENTER's attachments are on disk; their room serves LEAVE's.
  call->attachment_count = 0;
  call->scratch_used = MAX_ATTACHMENTS * sizeof *call->attachments;
  if (result != SUCCESS || !(function->flags & FLAG_OUTPUTS))
    return;
  for (unsigned n = 0; n < function->parameter_count; n++) {
    const struct parameter *parameter = parameter_of(function, n);
    const void *pointer = pointer_argument(call, n);
    if (pointer == NULL)
      continue;
    if (parameter->role == ROLE_OUT || parameter->role == ROLE_INOUT)
      attach(call, n, 0, pointer, term_value(call, &parameter->count) * parameter->element_bytes);
    else if (parameter->role == ROLE_HOST_WRITE && (function->flags & FLAG_SYNCHRONIZES))
      attach_unsafe(call, n, 0, pointer, term_value(call, &parameter->count));
  }
}

bool encode_enter(const struct call *call) {
  struct record record;
  size_t words = (size_t)call->function->parameter_count * 8;
  if (!begin_record_in(belongs_to_window(call) ? call->window : 0, &record, RECORD_ENTER,
                       call->record_function, call->number, words + attachments_bytes(call)))
    return false;
  put_bytes(&record, call->arguments, words);
  put_attachments(&record, call);
  end_record(&record);
  return true;
}

void encode_leave(const struct call *call, int result) {
  struct record record;
  bool says_something = result != SUCCESS || call->attachment_count > 0;
  if (!begin_record(&record, RECORD_LEAVE, call->record_function, call->number,
                    says_something ? 8 + attachments_bytes(call) : 0))
    return;
  if (says_something)
    put_u64(&record, (uint32_t)result);
  put_attachments(&record, call);
  end_record(&record);
}

void record_made_call(const struct function *function, uint16_t record_function, const uint64_t *arguments,
                      struct attachment *entered, struct attachment *left) {
  struct call call = {.function = function,
                      .record_function = record_function,
                      .arguments = arguments,
                      .number = next_call_number(),
                      .attachments = entered,
                      .attachment_count = entered != NULL};
  if (!encode_enter(&call))
    return;
  call.attachments = left;
  call.attachment_count = left != NULL;
  encode_leave(&call, SUCCESS);
}
