// The loops of BatchNorm for AVX-512. Call only if the processor has AVX-512.
#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cpp/core/dtype.h"
#include "cpp/ops/cpu/nn/norm/norm_rows.h"

// This pragma must follow the headers that other files also include, because inline functions of
// these headers must not be compiled for this target.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw")
#define MX_WIDE 1
#include "cpp/ops/cpu/nn/norm/norm_loops.h"

namespace mxlite::cpu::avx512 {

template <class T>
const NormRows<T>& norm_rows() {
  return kLoops<T>;
}
template const NormRows<float>& norm_rows<float>();
template const NormRows<bfloat16>& norm_rows<bfloat16>();

}  // namespace mxlite::cpu::avx512
