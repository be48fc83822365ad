# A toolchain file for `make wheel`: zig's clang with the headers and the linker stubs of an old glibc, so that the
# libraries ask nothing newer of the program that they are loaded into. It compiles for aarch64 as well as for x86-64.
#
# REPLAY_ZIG: the compiler, as the ziglang wheel brings it. REPLAY_MACHINE: x86_64 or aarch64; empty: this machine.
# Both are taken from the environment, because CMake reads this file again for each of its own tests.
set(machine "$ENV{REPLAY_MACHINE}")
if(NOT machine)
  cmake_host_system_information(RESULT machine QUERY OS_PLATFORM)
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${machine}")
foreach(language_and_command C:cc CXX:c++ ASM:cc)
  string(REPLACE ":" ";" pair "${language_and_command}")
  list(GET pair 0 language)
  list(GET pair 1 command)
  set(CMAKE_${language}_COMPILER "$ENV{REPLAY_ZIG}" ${command} -target "${machine}-linux-gnu.2.17")
endforeach()
# Also for the tests of CMake: zig compiles a C++ library of its own for each level.
set(CMAKE_CXX_FLAGS_INIT -O2)
# The strip of this machine does not know the other one's libraries.
# Without collection of sections: the shim finds its mutexes by the ends of theirs, which lld would drop.
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -Wl,--no-gc-sections")
