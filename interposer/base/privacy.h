// What of the user's is not written.
#pragma once

#include <stddef.h>

size_t without_home(char *path); // writes the home folder as ~; gives the length
void private_command(char *to, size_t room, const char *words, size_t length);
