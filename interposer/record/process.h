// What the capture says about its process, its driver, and itself.
#pragma once

#include <stdint.h>

void describe_process(uint32_t forked_from); // 0: by no fork that the shim saw
void describe_driver(void);
void describe_perturbation(void);
