// As ways_in.c: a program whose runtime is Go's, with threads and signal handlers of its own.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int one(void *function, uint64_t a) { return ((int (*)(uint64_t))function)(a); }
static int two(void *function, void *a, uint64_t b) { return ((int (*)(void *, uint64_t))function)(a, b); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

func main() {
	runtime.LockOSThread() // a context is current in one thread
	library := C.CString("libcuda.so.1")
	driver := C.dlopen(library, C.RTLD_NOW)
	if driver == nil {
		fmt.Println("no driver")
		os.Exit(2)
	}
	find := func(name string) unsafe.Pointer {
		text := C.CString(name)
		defer C.free(unsafe.Pointer(text))
		return C.dlsym(driver, text)
	}
	context := (*C.uint64_t)(C.calloc(1, 8))
	memory := (*C.uint64_t)(C.calloc(1, 8))
	started := C.one(find("cuInit"), 0)
	retained := C.two(find("cuDevicePrimaryCtxRetain"), unsafe.Pointer(context), 0)
	set := C.one(find("cuCtxSetCurrent"), *context)
	allocated := C.two(find("cuMemAlloc_v2"), unsafe.Pointer(memory), 4096)
	freed := C.one(find("cuMemFree_v2"), *memory)
	fmt.Printf("first: %d %d %d %d %d\n", started, retained, set, allocated, freed)
	if started|retained|set|allocated|freed != 0 {
		os.Exit(1)
	}
}
