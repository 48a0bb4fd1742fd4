#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace nispa {

static const Kernels& choose() {
#if defined(__x86_64__)
  const char* asked = std::getenv("NISPA_ISA");  // for tests: a lesser set than the machine has
  auto upto = [&](const char* name) {
    return asked == nullptr || std::strcmp(asked, "avx512") == 0 || std::strcmp(asked, name) == 0;
  };
  if (upto("avx512") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return kernels_avx512();
  if (upto("avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernels_avx2();
#endif
  return kernels_base();
}

const Kernels& kernels() {
  static const Kernels& best = choose();
  return best;
}

}  // namespace nispa
