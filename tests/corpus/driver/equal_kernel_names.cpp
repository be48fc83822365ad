// covers: Kernels and variables of one name in several modules and in a library, with other parameters and
// other code; a module unloaded and loaded again in between, where another image gets the handle that it had.
#include "check.hpp"

static std::string text(const char *operation, const char *parameters) {
  return std::string(PTX_HEADER ".visible .global .align 4 .u32 state = 5;\n.visible .entry apply(") +
         parameters + R"()
{
  .reg .b32 %r<5>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [amount];
  ld.global.u32 %r2, [state];
  )" + operation +
         R"( %r3, %r2, %r1;
  st.global.u32 [state], %r3;
  st.global.u32 [%rd1], %r3;
  ret;
}
)";
}

int main() {
  Primary primary;
  const std::string add = text("add.u32", ".param .u64 out, .param .u32 amount");
  const std::string multiply = text("mul.lo.u32", ".param .u32 amount, .param .u64 out");
  CUmodule adding = load(add.c_str()), multiplying = load(multiply.c_str());
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, add.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel;
  CHECK(cuLibraryGetKernel(&kernel, library, "apply"));
  CUfunction first = function(adding, "apply"), second = function(multiplying, "apply");
  Words out(4);
  for (uint32_t round = 0; round < 3; round++) {
    CHECK(launch(first, 1, 1, nullptr, out.address, uint32_t(2)));
    CHECK(launch(second, 1, 1, nullptr, uint32_t(3), out.address + 4));
    CHECK(launch(reinterpret_cast<CUfunction>(kernel), 1, 1, nullptr, out.address + 8, uint32_t(10)));
    equal("out", words(out.address, 3),
          {5 + 2 * (round + 1),
           round == 0   ? 15u
           : round == 1 ? 45u
                        : 135u,
           5 + 10 * (round + 1)});
  }
  for (uint32_t round = 0; round < 3; round++) { // each load begins with the initial value
    CHECK(cuModuleUnload(adding));
    const bool other = round == 1;
    adding = load(other ? multiply.c_str() : add.c_str());
    first = function(adding, "apply");
    if (other)
      CHECK(launch(first, 1, 1, nullptr, uint32_t(7), out.address));
    else
      CHECK(launch(first, 1, 1, nullptr, out.address, uint32_t(7)));
    equal("loaded again", words(out.address, 1), {other ? 35u : 12u});
  }
  CHECK(cuLibraryUnload(library));
  return ok();
}
