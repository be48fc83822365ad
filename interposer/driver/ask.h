// Questions that several layers ask the driver, and contexts that they make current for a question.
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t current_context(void); // 0: none
// Makes a context current; true: pop_context has to follow. False also where it is current already.
bool push_context(uint64_t context);
void pop_context(void);
bool is_host_visible(uint64_t address);
uint32_t current_architecture(void); // 90 for compute capability 9.0; 0: not known
