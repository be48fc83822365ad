// ENTER and LEAVE records: one path for every function, driven by the roles of its parameters.
#include "record/encode.h"

#include "base/bytes.h"
#include "base/thread.h"
#include "driver/real.h"
#include "record/image.h"

#include <string.h>

// ---- attachments --------------------------------------------------------------------------------

void *take_scratch(struct call *call, size_t bytes) {
  size_t start = (call->scratch_used + 15u) & ~(size_t)15;
  if (bytes > SCRATCH_BYTES - start)
    return NULL;
  call->scratch_used = (uint32_t)(start + bytes);
  return call->thread->scratch + start;
}

static struct attachment *new_attachment(struct call *call, unsigned parameter, unsigned part,
                                         uint64_t length) {
  if (call->attachment_count >= MAX_ATTACHMENTS)
    return NULL;
  struct attachment *item = &call->attachments[call->attachment_count++];
  *item = (struct attachment){.parameter = (uint16_t)parameter, .part = (uint8_t)part, .length = length};
  return item;
}

bool set_bytes(struct attachment *item, const void *data, uint64_t length) {
  item->data = data;
  item->length = length;
  if (length <= INLINE_BYTES)
    return true;
  item->storage = STORAGE_BLOB;
  item->offset = reserve_blob(length);
  item->check = crc32c(0, data, length);
  return write_blob(item->offset, data, length);
}

void attach(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length) {
  struct attachment *item = new_attachment(call, parameter, part, length);
  if (item != NULL)
    set_bytes(item, data, length);
}

bool attach_place(struct call *call, unsigned parameter, unsigned part, const void *reference,
                  uint32_t reference_bytes, uint64_t length, uint32_t check) {
  struct attachment *item = new_attachment(call, parameter, part, length);
  if (item == NULL)
    return false;
  item->storage = STORAGE_FILE;
  item->data = reference;
  item->reference_bytes = reference_bytes;
  item->check = check;
  return true;
}

void attach_copy(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length) {
  void *copy = length <= INLINE_BYTES ? take_scratch(call, length) : NULL;
  if (copy != NULL)
    memcpy(copy, data, length);
  if (copy != NULL || length > INLINE_BYTES) // what is longer is written at once
    attach(call, parameter, part, copy != NULL ? copy : data, length);
}

bool attach_unsafe(struct call *call, unsigned parameter, unsigned part, const void *data, uint64_t length) {
  if (length <= INLINE_BYTES) {
    void *copy = take_scratch(call, length);
    if (copy == NULL || !read_memory(copy, data, length))
      return false;
    attach(call, parameter, part, copy, length);
    return true;
  }
  // In pieces through the scratch, so that the check is that of the bytes written even if another thread
  // changes them.
  uint32_t piece_bytes = 65536, used = call->scratch_used;
  uint8_t *piece = take_scratch(call, piece_bytes);
  call->scratch_used = used;
  if (piece == NULL || call->attachment_count >= MAX_ATTACHMENTS || !read_memory(piece, data, 1) ||
      !read_memory(piece, (const uint8_t *)data + length - 1, 1))
    return false;
  uint64_t offset = reserve_blob(length);
  uint32_t check = 0;
  for (uint64_t done = 0; done < length;) {
    size_t bytes = length - done < piece_bytes ? (size_t)(length - done) : piece_bytes;
    if (!read_memory(piece, (const uint8_t *)data + done, bytes))
      return false;
    check = crc32c(check, piece, bytes);
    if (!write_blob(offset + done, piece, bytes))
      return false;
    done += bytes;
  }
  struct attachment *item = new_attachment(call, parameter, part, length);
  item->storage = STORAGE_BLOB;
  item->offset = offset;
  item->check = check;
  return true;
}

// ---- values -------------------------------------------------------------------------------------

static uint64_t factor(const struct call *call, int position) {
  const struct parameter *parameter = &parameters[call->function->first_parameter + position];
  uint64_t word = call->arguments[position];
  if (parameter->role != ROLE_OUT && parameter->role != ROLE_INOUT)
    return word;
  uint64_t value = 0;
  if (word != 0)
    memcpy(&value, (const void *)(uintptr_t)word,
           parameter->element_bytes < 8 ? parameter->element_bytes : 8);
  return value;
}

uint64_t term_value(const struct call *call, const struct term *term) {
  uint64_t value = term->scale;
  if (value == 0) // no such term
    return 0;
  if (term->first >= 0)
    value *= factor(call, term->first);
  if (term->second >= 0)
    value *= factor(call, term->second);
  return value;
}

// ---- records ------------------------------------------------------------------------------------

// Of what is in the record itself, after the attachment's two words.
static size_t stored_bytes(const struct attachment *item) {
  switch (item->storage) {
  case STORAGE_BLOB:
    return 8;
  case STORAGE_FILE:
    return item->reference_bytes;
  default:
    return item->length;
  }
}

size_t attachment_bytes(const struct attachment *item) { return 16 + (stored_bytes(item) + 7) / 8 * 8; }

void put_attachment(struct record *record, const struct attachment *item) {
  put_u64(record, item->parameter | (uint64_t)item->part << 16 | (uint64_t)item->storage << 24 |
                      (uint64_t)item->check << 32);
  put_u64(record, item->length);
  if (item->storage == STORAGE_BLOB)
    put_u64(record, item->offset);
  else
    put_bytes(record, item->data, stored_bytes(item));
}

static size_t attachments_bytes(const struct call *call) {
  size_t bytes = 0;
  for (unsigned n = 0; n < call->attachment_count; n++)
    bytes += attachment_bytes(&call->attachments[n]);
  return bytes;
}

static void put_attachments(struct record *record, const struct call *call) {
  for (unsigned n = 0; n < call->attachment_count; n++)
    put_attachment(record, &call->attachments[n]);
}

void attach_inputs(struct call *call) {
  const struct function *function = call->function;
  if (!(function->flags & FLAG_INPUTS))
    return;
  for (unsigned n = 0; n < function->parameter_count; n++) {
    const struct parameter *parameter = &parameters[function->first_parameter + n];
    const void *pointer = (const void *)(uintptr_t)call->arguments[n];
    if (pointer == NULL)
      continue;
    switch (parameter->role) {
    case ROLE_IN:
    case ROLE_INOUT: {
      uint64_t bytes = term_value(call, &parameter->count) * parameter->element_bytes;
      if (bytes > 0)
        attach_unsafe(call, n, 0, pointer, bytes);
      break;
    }
    case ROLE_STRING:
      attach(call, n, 0, pointer, strlen(pointer));
      break;
    case ROLE_IMAGE:
      attach_image(call, n, pointer);
      break;
    case ROLE_HOST_READ:
      attach_unsafe(call, n, 0, pointer, term_value(call, &parameter->count));
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
    const struct parameter *parameter = &parameters[function->first_parameter + n];
    const void *pointer = (const void *)(uintptr_t)call->arguments[n];
    if (pointer == NULL)
      continue;
    if (parameter->role == ROLE_OUT || parameter->role == ROLE_INOUT)
      attach(call, n, 0, pointer, term_value(call, &parameter->count) * parameter->element_bytes);
    else if (parameter->role == ROLE_HOST_WRITE && (function->flags & FLAG_SYNCHRONIZES))
      attach_unsafe(call, n, 0, pointer, term_value(call, &parameter->count));
  }
}

bool encode_enter(struct call *call) {
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
  size_t attached = attachments_bytes(call);
  bool says_something = result != SUCCESS || attached > 0;
  if (!begin_record(&record, RECORD_LEAVE, call->record_function, call->number,
                    says_something ? 8 + attached : 0))
    return;
  if (says_something)
    put_u64(&record, (uint32_t)result);
  put_attachments(&record, call);
  end_record(&record);
}
