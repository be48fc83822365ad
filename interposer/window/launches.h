// The list of launches.
#pragma once

#include "record/call.h"

bool open_launch_list(void);
void list_launches_of(struct call *call);
struct list_row;
void add_listed_time(struct list_row *row, uint64_t time_ns);
