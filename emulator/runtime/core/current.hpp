// Which device and context a thread works with.
#pragma once

#include "headers.hpp"

namespace emulator::runtime {

// Makes a context current unless one is: the driver API may have set one, and the runtime then works in it.
void use_context();

// The device of the current context, else the one this thread chose, else the first. Makes no context.
CUdevice current_device();

// For cudaSetDevice: the device's primary context becomes the thread's current one.
void choose_device(CUdevice device);

// The devices this thread tries, in order, where it has chosen none; none: the first.
void set_valid_devices(const int *devices, int count);

// Throws cudaErrorInvalidDevice for an ordinal that is none.
CUdevice device_of(int ordinal);

// The primary context of a device, kept for the life of the process.
CUcontext primary_context(CUdevice device);

// Ends everything the device holds for this process. The context is made anew at the next use.
void reset_primary_context(CUdevice device);

int device_attribute(CUdevice_attribute attribute, CUdevice device);

} // namespace emulator::runtime
