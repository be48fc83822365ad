// Texture and surface objects and references, which reach memory by a handle.
#pragma once

#include "memory/memory.h"

#include <stdatomic.h>

enum { MAX_OBJECT_TARGETS = 2 };

enum object_kind { OBJECT_TEXTURE, OBJECT_SURFACE, OBJECT_REFERENCE };
void objects_add(uint64_t handle, enum object_kind kind, uint64_t target); // target 0: unbound
void objects_remove(uint64_t handle, enum object_kind kind);
void objects_remove_context(uint64_t context);
// Which memory a word reaches if it is the handle of a texture or surface object; asked only for words
// between `lowest_object` and that plus `object_span`.
unsigned object_targets(uint64_t word, uint64_t targets[MAX_OBJECT_TARGETS]);
extern _Atomic uint64_t lowest_object, object_span;
extern atomic_uint bound_references; // which every launch may use
bool references_reach_untouched(void);
void references_take(struct range_list *taken);
