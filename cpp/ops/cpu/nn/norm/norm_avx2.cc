// The loops of BatchNorm for AVX2, which every supported processor has.
#define MX_WIDE 0
#include "cpp/ops/cpu/nn/norm/norm_loops.h"

namespace mxlite::cpu::avx2 {

template <class T>
const NormRows<T>& norm_rows() {
  return kLoops<T>;
}
template const NormRows<float>& norm_rows<float>();
template const NormRows<bfloat16>& norm_rows<bfloat16>();

}  // namespace mxlite::cpu::avx2
