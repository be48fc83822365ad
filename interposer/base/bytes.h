// Bytes of the application, and what is in them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool read_memory(void *destination, const void *source, size_t bytes); // false: not readable
bool is_zero(const uint8_t *data, size_t bytes);
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes); // crc32c.c
