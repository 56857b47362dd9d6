// Instructions of this processor beyond those that the library is compiled for.
#pragma once

namespace mxlite::cpu {

// Returns whether code for the target avx512f, avx512vl, avx512dq, avx512bw may run.
inline bool has_avx512() {
  static const bool able = __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  return able;
}

}  // namespace mxlite::cpu
