// As ways_in.c: a program whose runtime is Rust's.
use std::ffi::{c_char, c_int, c_void, CString};

#[link(name = "dl")]
extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn call(driver: *mut c_void, name: &str, first: u64, second: u64) -> c_int {
    let text = CString::new(name).unwrap();
    unsafe {
        let found = dlsym(driver, text.as_ptr());
        assert!(!found.is_null(), "{name} is not there");
        let function: extern "C" fn(u64, u64) -> c_int = std::mem::transmute(found);
        function(first, second)
    }
}

fn main() {
    let library = CString::new("libcuda.so.1").unwrap();
    let driver = unsafe { dlopen(library.as_ptr(), 2) }; // RTLD_NOW
    if driver.is_null() {
        println!("no driver");
        std::process::exit(2);
    }
    let (mut context, mut memory) = (0u64, 0u64);
    let started = call(driver, "cuInit", 0, 0);
    let retained = call(driver, "cuDevicePrimaryCtxRetain", &mut context as *mut u64 as u64, 0);
    let context = unsafe { std::ptr::read_volatile(&context) };
    let set = call(driver, "cuCtxSetCurrent", context, 0);
    let allocated = call(driver, "cuMemAlloc_v2", &mut memory as *mut u64 as u64, 4096);
    let memory = unsafe { std::ptr::read_volatile(&memory) };
    let freed = call(driver, "cuMemFree_v2", memory, 0);
    println!("first: {started} {retained} {set} {allocated} {freed}");
    std::process::exit(i32::from(started | retained | set | allocated | freed != 0));
}
