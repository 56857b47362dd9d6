// cuBLASLt's matrices are column-major, and mxlite's are row-major. So cuBLASLt computes the
// transposed product C^T = op(B)^T op(A)^T on the same memory, and the bias extends along the rows
// of C^T.
#include "cpp/ops/cuda/matrix/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "cpp/base/env.h"
#include "cpp/ops/cuda/context.h"
#include "cpp/ops/cuda/matrix/gemm_preference.h"
#include "cpp/ops/cuda/matrix/integer_gemm.h"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/dispatch_line.h"

namespace mxlite::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat64:
      return CUDA_R_64F;
    case DType::kInt8:
      return CUDA_R_8I;
    default:
      return CUDA_R_32F;
  }
}

// The types of C, of sums, and of alpha and beta.
struct ResultTypes {
  cudaDataType_t c;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};
ResultTypes result_types(DType dtype) {
  static const bool may_convert = env_int("MXNET_CUDA_TENSOR_OP_MATH_ALLOW_CONVERSION", 0) != 0;
  switch (dtype) {
    case DType::kInt8:
      return {CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I};
    case DType::kFloat64:
      return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    case DType::kFloat32:
      return {CUDA_R_32F, may_convert ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
              CUDA_R_32F};
    default:
      return {data_type(dtype), CUBLAS_COMPUTE_32F, CUDA_R_32F};
  }
}

// Descriptors of one call, which are destroyed also after errors.
struct Descriptors {
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

  Descriptors() = default;
  Descriptors& operator=(Descriptors&&) = delete;  // neither copied nor moved
  ~Descriptors() {
    if (preference) cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t layout : {a, b, c})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (op) cublasLtMatmulDescDestroy(op);
  }
};

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const T& value) {
  MX_CUBLAS(cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof(T)));
}

void make_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, int64_t rows, int64_t columns,
                 int64_t leading, const Gemm& g, int64_t stride) {
  MX_CUBLAS(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), leading));
  if (g.batch == 1) return;
  const auto count = static_cast<int32_t>(g.batch);
  MX_CUBLAS(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                             sizeof(count)));
  MX_CUBLAS(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &stride, sizeof(stride)));
}

void describe(const Gemm& g, const void* bias, Descriptors& d) {
  const cudaDataType_t type = data_type(g.dtype);
  const ResultTypes result = result_types(g.dtype);
  MX_CUBLAS(cublasLtMatmulDescCreate(&d.op, result.compute, result.scale));
  set(d.op, CUBLASLT_MATMUL_DESC_TRANSA, g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(d.op, CUBLASLT_MATMUL_DESC_TRANSB, g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (g.bias || g.relu) {
    const cublasLtEpilogue_t epilogue =
        g.bias ? (g.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
               : CUBLASLT_EPILOGUE_RELU;
    set(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (g.bias) {
      set(d.op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
      set(d.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    }
  }
  make_layout(&d.a, type, g.trans_b ? g.k : g.n, g.trans_b ? g.n : g.k, g.ldb, g, g.stride_b);
  make_layout(&d.b, type, g.trans_a ? g.m : g.k, g.trans_a ? g.k : g.m, g.lda, g, g.stride_a);
  make_layout(&d.c, result.c, g.n, g.m, g.ldc, g, g.stride_c);
}

// Everything on which the heuristic's choice of an algorithm depends.
struct Key {
  Gemm gemm;
  GemmAlignment align;
  int device = 0;
};

// Hashes keys field by field, because the value of their padding is undefined.
uint64_t mix(uint64_t hash, uint64_t v) {
  hash ^= v + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccd;
}
void for_each_number(const Key& k, auto&& fn) {
  const Gemm& g = k.gemm;
  for (const int64_t v : {g.m,
                          g.n,
                          g.k,
                          g.lda,
                          g.ldb,
                          g.ldc,
                          g.batch,
                          g.stride_a,
                          g.stride_b,
                          g.stride_c,
                          static_cast<int64_t>(g.dtype),
                          static_cast<int64_t>(g.trans_a),
                          static_cast<int64_t>(g.trans_b),
                          static_cast<int64_t>(g.bias),
                          static_cast<int64_t>(g.relu),
                          static_cast<int64_t>(g.beta != 0),
                          static_cast<int64_t>(k.align.a),
                          static_cast<int64_t>(k.align.b),
                          static_cast<int64_t>(k.align.c),
                          static_cast<int64_t>(k.device)})
    fn(v);
}
struct KeyHash {
  size_t operator()(const Key& k) const {
    uint64_t hash = 0;
    for_each_number(k, [&](int64_t v) { hash = mix(hash, static_cast<uint64_t>(v)); });
    return hash;
  }
};
struct KeyEqual {
  bool operator()(const Key& a, const Key& b) const {
    int64_t first[32], second[32];
    int n = 0, m = 0;
    for_each_number(a, [&](int64_t v) { first[n++] = v; });
    for_each_number(b, [&](int64_t v) { second[m++] = v; });
    return std::memcmp(first, second, static_cast<size_t>(n) * sizeof(int64_t)) == 0;
  }
};

// nullopt if cuBLASLt has no algorithm.
using Algorithm = std::optional<cublasLtMatmulAlgo_t>;

class AlgorithmCache {
 public:
  Algorithm get(KernelContext& ctx, const Key& key, Descriptors& d, size_t workspace_bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = algorithms_.find(key);
    if (found != algorithms_.end()) return found->second;
    const Algorithm algorithm = choose(ctx, key, d, workspace_bytes);
    algorithms_.emplace(key, algorithm);
    return algorithm;
  }

 private:
  static Algorithm choose(KernelContext& ctx, const Key& key, Descriptors& d,
                          size_t workspace_bytes) {
    d.preference = make_preference(key.gemm.dtype, key.align, workspace_bytes);
    // The results are in the order of their expected time; some of them may not run.
    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(cublaslt(ctx), d.op, d.a, d.b, d.c, d.c, d.preference,
                                       static_cast<int>(results.size()), results.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    const auto found = std::span(results).first(static_cast<size_t>(count));
    const auto first =
        std::ranges::find(found, CUBLAS_STATUS_SUCCESS, &cublasLtMatmulHeuristicResult_t::state);
    return first == found.end() ? std::nullopt : Algorithm(first->algo);
  }

  std::mutex mutex_;
  std::unordered_map<Key, Algorithm, KeyHash, KeyEqual> algorithms_;  // guarded by mutex_
};

AlgorithmCache& algorithms() {
  static auto* const cache = new AlgorithmCache;  // leaked: workers may outlive static destructors
  return *cache;
}

std::string text_of(const Gemm& g) {
  return str(g.m, " x ", g.k, " times ", g.k, " x ", g.n, " of ", dtype_name(g.dtype));
}

// Returns false without running anything if cuBLASLt has no algorithm.
bool run(KernelContext& ctx, const Gemm& g, const GemmOperands& o, const void* alpha,
         const void* beta) {
  Descriptors d;
  describe(g, o.bias, d);
  const Workspace workspace = gemm_workspace(ctx);
  const Key key{g, alignment_of(o), ctx.device.index};
  const Algorithm algorithm = algorithms().get(ctx, key, d, workspace.bytes);
  if (!algorithm) return false;
  MX_CUBLAS(cublasLtMatmul(cublaslt(ctx), d.op, alpha, o.b, d.a, o.a, d.b, beta,
                           o.addend ? o.addend : o.c, d.c, o.c, d.c, &*algorithm, workspace.data,
                           workspace.bytes, stream(ctx)));
  return true;
}

}  // namespace

void gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& o) {
  if (g.batch == 0 || g.m == 0 || g.n == 0) return;
  constexpr int64_t kMostBatch = 65535;  // the largest z extent of a grid
  if (g.batch > kMostBatch) {
    const auto bytes = static_cast<int64_t>(dtype_size(g.dtype));
    const auto at = [&](const void* data, int64_t elements) -> const char* {
      return data ? static_cast<const char*>(data) + elements * bytes : nullptr;
    };
    for (int64_t first = 0; first < g.batch; first += kMostBatch) {
      Gemm some = g;
      some.batch = std::min(kMostBatch, g.batch - first);
      gemm(ctx, some,
           {at(o.a, first * g.stride_a), at(o.b, first * g.stride_b),
            const_cast<char*>(at(o.c, first * g.stride_c)), o.bias,
            at(o.addend, first * g.stride_c)});
    }
    return;
  }
  if (!is_floating(g.dtype)) return integer_gemm(ctx, g, o);
  if (g.k == 0 && g.beta == 0 && !g.bias) {
    const size_t row_bytes = static_cast<size_t>(g.n) * dtype_size(g.dtype);
    const size_t pitch = static_cast<size_t>(g.ldc) * dtype_size(g.dtype);
    for (int64_t i = 0; i < g.batch; ++i)
      MX_CUDA(cudaMemset2DAsync(
          static_cast<char*>(o.c) + i * g.stride_c * static_cast<int64_t>(dtype_size(g.dtype)),
          pitch, 0, row_bytes, static_cast<size_t>(g.m), stream(ctx)));
    return;
  }
  const auto alpha32 = static_cast<float>(g.alpha), beta32 = static_cast<float>(g.beta);
  const bool wide = g.dtype == DType::kFloat64;
  const void* const alpha = wide ? static_cast<const void*>(&g.alpha) : &alpha32;
  const void* const beta = wide ? static_cast<const void*>(&g.beta) : &beta32;
  MX_CHECK_KIND(run(ctx, g, o, alpha, beta), ErrorKind::kNotSupported,
                "matrix product: cuBLASLt has no algorithm for ", text_of(g));
}

bool gemm_to_int32(KernelContext& ctx, const Gemm& g, const GemmOperands& o) {
  MX_ASSERT(g.dtype == DType::kInt8 && g.trans_b && !g.trans_a && !g.bias && !g.relu);
  const int32_t alpha = 1, beta = 0;
  if (run(ctx, g, o, &alpha, &beta)) return true;
  print_dispatch(str("matrix product ", text_of(g)), "cuBLASLt", "no algorithm");
  return false;
}

}  // namespace mxlite::cuda
