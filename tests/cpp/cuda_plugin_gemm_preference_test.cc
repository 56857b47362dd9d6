// Reads back from cuBLASLt which limits products give to its heuristic. The test needs no GPU.
#include <gtest/gtest.h>

#include "cpp/ops/cuda/matrix/gemm_preference.h"

namespace mxlite::cuda {
namespace {

template <class T>
T preferred(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what) {
  T value{};
  size_t bytes = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference, what, &value, sizeof(value), &bytes),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(bytes, sizeof(value));
  return value;
}

uint32_t schemes_of(DType dtype) {
  const cublasLtMatmulPreference_t preference = make_preference(dtype, {16, 16, 16}, 1 << 20);
  const auto mask = preferred<uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  cublasLtMatmulPreferenceDestroy(preference);
  return mask;
}

// Any other scheme of split-K adds parts in the type of the result, which rounds float16 results
// twice.
TEST(CudaPluginGemmPreferenceTest, PartsOfHalfProductsAreAddedInFloat32) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    EXPECT_EQ(schemes_of(dtype), uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE})
        << dtype_name(dtype);
}

TEST(CudaPluginGemmPreferenceTest, OtherProductsMayUseAnyScheme) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt8})
    EXPECT_EQ(schemes_of(dtype), uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK}) << dtype_name(dtype);
}

// cuBLASLt computes the transposed product, so its first operand is our second one.
TEST(CudaPluginGemmPreferenceTest, AlignmentsFollowTheOperands) {
  const cublasLtMatmulPreference_t preference =
      make_preference(DType::kFloat32, {.a = 4, .b = 8, .c = 32}, 1 << 20);
  const auto bytes = [&](cublasLtMatmulPreferenceAttributes_t what) {
    return preferred<uint32_t>(preference, what);
  };
  EXPECT_EQ(bytes(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 8u);
  EXPECT_EQ(bytes(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 4u);
  EXPECT_EQ(bytes(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES), 32u);
  EXPECT_EQ(bytes(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 32u);
  EXPECT_EQ(preferred<size_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
            size_t{1} << 20);
  cublasLtMatmulPreferenceDestroy(preference);
}

}  // namespace
}  // namespace mxlite::cuda
