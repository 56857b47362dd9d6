#include "cpp/ops/cuda/matrix/gemm_preference.h"

#include "cpp/ops/cuda/check.h"

namespace mxlite::cuda {

cublasLtMatmulPreference_t make_preference(DType dtype, const GemmAlignment& align,
                                           size_t workspace_bytes) {
  cublasLtMatmulPreference_t preference = nullptr;
  MX_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    MX_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof(value)));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align.b);  // A and B are exchanged, because
                                                                // the product is transposed
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align.a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align.c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align.c);
  // 16-bit floats are rounded once: parts of a sum are added in float32, not in the type of C.
  if (is_half(dtype))
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  return preference;
}

}  // namespace mxlite::cuda
