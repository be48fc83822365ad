// Tensor maps: how many are known, and the global address of one, 0 for bytes that are none.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGNMENT = 64 };
extern atomic_uint tensor_maps;
void tensor_map_add(const void *bytes, uint64_t address);
uint64_t tensor_map_address(const void *bytes);
