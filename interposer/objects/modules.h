// The modules and libraries of the application, and their variables that no call named.
#pragma once

#include "record/call.h"

struct kernel;

void keep_image(struct call *call); // when ENTER is written: where the image is that the call loads
void note_modules(struct call *call, int result);
void want_variables(
    struct kernel *kernel); // those of its module, before a launch; takes no time when they are known
void want_variables_of_launch(const struct call *call);
bool variables_are_wanted(void);
void ask_for_variables(void); // they become ranges of memory. The gate is closed
