// What the capture says about its process, its driver and itself, and what of the user's it leaves out.
#pragma once

#include "base/base.h"

void describe_process(uint32_t forked_from); // 0: by no fork that the shim saw
void describe_driver(void);
void describe_perturbation(void);
size_t without_home(char *path); // writes the home folder as ~; gives the length
