#include "cpp/ops/cpu/gemm.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/core/openmp.h"
#include "cpp/core/subnormals.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/convert_run.h"
#include "cpp/ops/cpu/matrix_vector.h"
#include "cpp/ops/cpu/narrow_product.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/cpu/packed_product.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/cpu/row_products.h"

namespace mxlite::cpu {
namespace {

struct Problem {
  DType dtype;
  bool trans_a, trans_b;
  int64_t batch, m, n, k, lda, stride_a, ldb, stride_b, ldc, stride_c;
  double alpha, beta;
  bool operator==(const Problem&) const = default;
};

struct ProblemHash {
  size_t operator()(const Problem& p) const {
    size_t h = static_cast<size_t>(p.dtype) * 4 + p.trans_a * 2 + p.trans_b;
    const auto mix = [&](auto v) { h = (h ^ std::hash<decltype(v)>{}(v)) * 0x9E3779B97F4A7C15; };
    for (int64_t v : {p.batch, p.m, p.n, p.k, p.lda, p.stride_a, p.ldb, p.stride_b, p.ldc}) mix(v);
    mix(p.alpha);
    mix(p.beta);
    return h;
  }
};

// ---- native: register tiles of kRows x kCols over packed blocks of B ------------------------

constexpr int64_t kRows = 4, kDepth = 128, kWidth = 256;

template <class T>
struct Tile {
  using Vec [[gnu::vector_size(32)]] = T;
  static constexpr int64_t kLanes = 32 / sizeof(T);
  static constexpr int64_t kCols = 2 * kLanes;

  Vec sums[kRows][2] = {};

  // Adds the product of a packed block of A (depth x kRows) and a strip of B (depth x kCols) to a
  // tile of C.
  void add(const T* block, const T* strip, int64_t depth) {
    for (int64_t l = 0; l < depth; ++l) {
      Vec b0, b1;
      std::memcpy(&b0, strip + l * kCols, sizeof(Vec));
      std::memcpy(&b1, strip + l * kCols + kLanes, sizeof(Vec));
      for (int64_t r = 0; r < kRows; ++r) {
        sums[r][0] += block[l * kRows + r] * b0;
        sums[r][1] += block[l * kRows + r] * b1;
      }
    }
  }
  T at(int64_t row, int64_t col) const { return sums[row][col / kLanes][col % kLanes]; }
};

template <class T, class Acc>
void gemm_native(const Problem& p, const T* a, const T* b, T* c) {
  constexpr int64_t kCols = Tile<Acc>::kCols;
  const Acc alpha = static_cast<Acc>(p.alpha);
  const auto a_at = [&](int64_t i, int64_t l) -> Acc {
    return static_cast<Acc>(p.trans_a ? a[l * p.lda + i] : a[i * p.lda + l]);
  };
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      T& v = c[i * p.ldc + j];
      v = p.beta == 0   ? T(0)
          : p.beta == 1 ? v
                        : static_cast<T>(static_cast<Acc>(p.beta) * static_cast<Acc>(v));
    }
  static thread_local std::vector<Acc> packed_b(kDepth * (kWidth + kCols));
  Acc* const panel = packed_b.data();
  for (int64_t j0 = 0; j0 < p.n; j0 += kWidth) {
    const int64_t width = std::min(kWidth, p.n - j0);
    for (int64_t l0 = 0; l0 < p.k; l0 += kDepth) {
      const int64_t depth = std::min(kDepth, p.k - l0);
      for (int64_t j = 0; j < width; j += kCols) {
        const int64_t cols = std::min(kCols, width - j);
        Acc* const strip = panel + j * depth;
        for (int64_t l = 0; l < depth; ++l)
          for (int64_t jj = 0; jj < kCols; ++jj) {
            const int64_t row = l0 + l, col = j0 + j + jj;
            strip[l * kCols + jj] = jj >= cols ? Acc(0)
                                               : static_cast<Acc>(p.trans_b ? b[col * p.ldb + row]
                                                                            : b[row * p.ldb + col]);
          }
      }
      for (int64_t i = 0; i < p.m; i += kRows) {
        const int64_t rows = std::min(kRows, p.m - i);
        Acc block[kDepth * kRows];
        for (int64_t l = 0; l < depth; ++l)
          for (int64_t r = 0; r < kRows; ++r)
            block[l * kRows + r] = r < rows ? alpha * a_at(i + r, l0 + l) : Acc(0);
        for (int64_t j = 0; j < width; j += kCols) {
          Tile<Acc> tile;
          tile.add(block, panel + j * depth, depth);
          const int64_t cols = std::min(kCols, width - j);
          for (int64_t r = 0; r < rows; ++r) {
            T* const row = c + (i + r) * p.ldc + j0 + j;
            for (int64_t jj = 0; jj < cols; ++jj)
              row[jj] = static_cast<T>(static_cast<Acc>(row[jj]) + tile.at(r, jj));
          }
        }
      }
    }
  }
}

// ---- halves ----------------------------------------------------------------------------------

template <class To, class From>
void convert_rows(int64_t rows, int64_t cols, const From* src, int64_t src_ld, To* dst,
                  int64_t dst_ld) {
  parallel_for(rows, cols,
               [=](int64_t i) { convert_run(src + i * src_ld, dst + i * dst_ld, cols); });
}

// Computes the product in float, on float copies of A, B and C.
template <class T>
void gemm_as_float(const Problem& p, const T* a, const T* b, T* c) {
  static thread_local std::vector<float> buffer;
  buffer.resize(static_cast<size_t>(p.m * p.k + p.k * p.n + p.m * p.n));
  float* const fa = buffer.data();
  float* const fb = fa + p.m * p.k;
  float* const fc = fb + p.k * p.n;
  const int64_t a_rows = p.trans_a ? p.k : p.m, a_cols = p.trans_a ? p.m : p.k;
  const int64_t b_rows = p.trans_b ? p.n : p.k, b_cols = p.trans_b ? p.k : p.n;
  convert_rows(a_rows, a_cols, a, p.lda, fa, a_cols);
  convert_rows(b_rows, b_cols, b, p.ldb, fb, b_cols);
  if (p.beta != 0) convert_rows(p.m, p.n, c, p.ldc, fc, p.n);
  gemm(DType::kFloat32, p.trans_a, p.trans_b, p.m, p.n, p.k, fa, a_cols, fb, b_cols, fc, p.n,
       p.alpha, p.beta);
  convert_rows(p.m, p.n, fc, p.n, c, p.ldc);
}

dnnl::matmul make_matmul(const Problem& p) {
  using dnnl::memory;
  const auto type = p.dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f16;
  // Use no batch axis for a single product: oneDNN's fast kernels reject a batch stride of 0.
  const auto desc = [&](int64_t rows, int64_t cols, bool trans, int64_t ld, int64_t stride) {
    const int64_t row = trans ? 1 : ld, col = trans ? ld : 1;
    if (p.batch == 1) return memory::desc({rows, cols}, type, memory::dims{row, col});
    return memory::desc({p.batch, rows, cols}, type, memory::dims{stride, row, col});
  };
  dnnl::primitive_attr attr;
  dnnl::post_ops post;
  if (p.alpha != 1)
    post.append_eltwise(dnnl::algorithm::eltwise_linear, static_cast<float>(p.alpha), 0);
  if (p.beta != 0) post.append_sum(static_cast<float>(p.beta));
  attr.set_post_ops(post);
  const dnnl::matmul::primitive_desc pd(
      onednn::engine(), desc(p.m, p.k, p.trans_a, p.lda, p.stride_a),
      desc(p.k, p.n, p.trans_b, p.ldb, p.stride_b), desc(p.m, p.n, false, p.ldc, p.stride_c), attr,
      /*allow_empty=*/true);
  // oneDNN's reference implementation is hundreds of times slower than computing on float copies.
  const bool usable =
      pd.get(/*allow_empty=*/true) && !std::string_view(pd.impl_info_str()).starts_with("ref");
  return usable ? dnnl::matmul(pd) : dnnl::matmul();
}

double count_products(const Problem& p) {
  return static_cast<double>(p.batch * p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

int product_threads(const Problem& p) {
  return threads_for(count_products(p) * kProductNanoseconds);
}

struct Matmul {
  dnnl::matmul primitive;
  int threads;  // number of threads for which oneDNN has divided the work
};

// Returns false if oneDNN has no implementation for this type on this processor.
bool gemm_matmul(const Problem& p, const void* a, const void* b, void* c) {
  constexpr size_t kMaxEntries = 1024;
  static thread_local std::unordered_map<Problem, Matmul, ProblemHash> cache;
  auto it = cache.find(p);
  if (it == cache.end()) {
    if (cache.size() >= kMaxEntries) cache.clear();
    const int wanted = product_threads(p);
    const LibraryThreads threads(wanted);
    it = cache.emplace(p, Matmul{make_matmul(p), wanted}).first;
  }
  const dnnl::matmul& primitive = it->second.primitive;
  if (!primitive.get(/*allow_empty=*/true)) return false;
  const LibraryThreads threads(it->second.threads);
  const auto pd = primitive.get_primitive_desc();
  const auto memory = [&](int which, const void* data) {
    dnnl_memory_desc_t copy = nullptr;
    dnnl::error::wrap_c_api(dnnl_memory_desc_clone(&copy, dnnl_primitive_desc_query_md(
                                                              pd, dnnl_query_exec_arg_md, which)),
                            "gemm: memory descriptor");
    return dnnl::memory(dnnl::memory::desc(copy), onednn::engine(), const_cast<void*>(data));
  };
  primitive.execute(onednn::stream(), {{DNNL_ARG_SRC, memory(DNNL_ARG_SRC, a)},
                                       {DNNL_ARG_WEIGHTS, memory(DNNL_ARG_WEIGHTS, b)},
                                       {DNNL_ARG_DST, memory(DNNL_ARG_DST, c)}});
  return true;
}

// ---- one product -----------------------------------------------------------------------------

// Each thread computes a range of rows, or of columns if there are few rows, with a separate panel.
template <class T, class Acc>
void gemm_threaded(const Problem& p, const T* a, const T* b, T* c) {
  constexpr double kNanoseconds = 4 * kProductNanoseconds;  // time of a multiply-add in these loops
  const bool by_rows = p.m >= p.n;
  const int64_t length = by_rows ? p.m : p.n, blocks = (length + kRows - 1) / kRows;
  run_parts(blocks, count_products(p) * kNanoseconds, [&](int64_t first_block, int64_t last_block) {
    const int64_t first = first_block * kRows, last = std::min(last_block * kRows, length);
    Problem part = p;
    (by_rows ? part.m : part.n) = last - first;
    if (by_rows)
      gemm_native<T, Acc>(part, a + first * (p.trans_a ? 1 : p.lda), b, c + first * p.ldc);
    else
      gemm_native<T, Acc>(part, a, b + first * (p.trans_b ? p.ldb : 1), c + first);
  });
}

void run_native(const Problem& p, const void* a, const void* b, void* c) {
  const auto go = [&]<class T, class Acc>(T, Acc) {
    gemm_threaded<T, Acc>(p, static_cast<const T*>(a), static_cast<const T*>(b),
                          static_cast<T*>(c));
  };
  switch (p.dtype) {
    case DType::kFloat32:
      return go(float{}, float{});
    case DType::kFloat64:
      return go(double{}, double{});
    default:
      break;
  }
  // Sums and products modulo 2^bits are equal for signed and unsigned types.
  switch (dtype_size(p.dtype)) {
    case 1:
      return go(uint8_t{}, uint32_t{});
    case 2:
      return go(uint16_t{}, uint32_t{});
    case 4:
      return go(uint32_t{}, uint32_t{});
    default:
      return go(uint64_t{}, uint64_t{});
  }
}

// Returns whether packed_product supports the operands' dtype and memory layout.
bool is_packed_case(const Problem& p) {
  return p.dtype == DType::kBFloat16 && p.batch == 1 && p.alpha == 1 && p.beta == 0 &&
         p.lda == (p.trans_a ? p.m : p.k) && p.ldb == (p.trans_b ? p.k : p.n) && p.ldc == p.n;
}

void run_half(const Problem& p, const void* a, const void* b, void* c) {
  if (is_packed_case(p) && packed_product(p.trans_a, p.trans_b, p.m, p.n, p.k, a, b, c)) return;
  if (p.k > 0 && !is_small_gemm(p.m, p.n, p.k) && gemm_matmul(p, a, b, c)) return;
  if (p.dtype == DType::kBFloat16)
    gemm_as_float(p, static_cast<const bfloat16*>(a), static_cast<const bfloat16*>(b),
                  static_cast<bfloat16*>(c));
  else
    gemm_as_float(p, static_cast<const float16*>(a), static_cast<const float16*>(b),
                  static_cast<float16*>(c));
}

// Computes a product with one row or column by matrix_vector. Returns false if the layout does not
// allow that.
bool as_matrix_vector(const Problem& p, const float* a, const float* b, float* c) {
  if (p.alpha != 1 || (p.beta != 0 && p.beta != 1)) return false;
  const float* const start = p.beta == 1 ? c : nullptr;
  if (p.m == 1 && p.trans_b && (!p.trans_a || p.lda == 1)) {
    matrix_vector({b, p.n, p.k, p.ldb, a, start, c});
    return true;
  }
  if (p.n == 1 && !p.trans_a && (p.trans_b || p.ldb == 1) && p.ldc == 1) {
    matrix_vector({a, p.m, p.k, p.lda, b, start, c});
    return true;
  }
  return false;
}

// Computes a product with a small right operand by narrow_product. Returns false for other layouts
// and processors.
bool as_narrow_product(const Problem& p, const float* a, const float* b, float* c) {
  if (p.trans_a || p.alpha != 1 || p.beta != 0 || !is_narrow_product(p.n, p.k) || !has_avx512())
    return false;
  narrow_product(p.trans_b, p.m, p.n, p.k, a, p.lda, b, p.ldb, c, p.ldc);
  return true;
}

dnnl_status_t sgemm(const Problem& p, const float* a, const float* b, float* c) {
  onednn::engine();  // makes oneDNN use our threads before its first region
  const LibraryThreads threads(product_threads(p));
  return dnnl_sgemm(p.trans_a ? 'T' : 'N', p.trans_b ? 'T' : 'N', p.m, p.n, p.k,
                    static_cast<float>(p.alpha), a, std::max<int64_t>(p.lda, 1), b,
                    std::max<int64_t>(p.ldb, 1), static_cast<float>(p.beta), c,
                    std::max<int64_t>(p.ldc, 1));
}

// oneDNN's sgemm for AVX2 does not pack a plain B if A has few rows. If the row stride of B is then
// a multiple of 4 KiB, the rows share sets of the L1 cache, which halves the speed.
bool is_slow_for_avx2(const Problem& p) {
  constexpr int64_t kLeastRows = 96, kMostRows = 256, kFloatsOfPage = 1024;
  return !p.trans_b && p.ldb % kFloatsOfPage == 0 && p.m >= kLeastRows && p.m <= kMostRows &&
         !has_avx512() && !openmp::in_parallel();
}

// Copies parts of B, which fit into the caches, with another row stride, and runs sgemm on them.
dnnl_status_t sgemm_on_copies(const Problem& p, const float* a, const float* b, float* c) {
  constexpr int64_t kFloats = int64_t{1} << 20, kLeastDepth = 64, kLine = 16;
  const int64_t most = std::max(kLeastDepth, kFloats / p.n);
  static thread_local std::vector<float> copies;
  Problem part = p;
  part.ldb = (p.n + kLine - 1) / kLine * kLine + kLine;
  copies.resize(std::max(copies.size(), static_cast<size_t>(std::min(most, p.k) * part.ldb)));
  for (int64_t l = 0; l < p.k; l += most) {
    part.k = std::min(most, p.k - l);
    convert_rows(part.k, p.n, b + l * p.ldb, p.ldb, copies.data(), part.ldb);
    const auto status = sgemm(part, a + (p.trans_a ? l * p.lda : l), copies.data(), c);
    if (status != dnnl_success) return status;
    part.beta = 1;
  }
  return dnnl_success;
}

void run_one(const Problem& p, const void* a, const void* b, void* c) {
  if (p.m == 0 || p.n == 0) return;
  if (is_half(p.dtype)) return run_half(p, a, b, c);
  if (p.dtype != DType::kFloat32) return run_native(p, a, b, c);
  const auto *fa = static_cast<const float*>(a), *fb = static_cast<const float*>(b);
  auto* const fc = static_cast<float*>(c);
  if (as_matrix_vector(p, fa, fb, fc) || as_narrow_product(p, fa, fb, fc)) return;
  if (is_small_gemm(p.m, p.n, p.k)) return run_native(p, a, b, c);
  const auto status = is_slow_for_avx2(p) ? sgemm_on_copies(p, fa, fb, fc) : sgemm(p, fa, fb, fc);
  if (status != dnnl_success) run_native(p, a, b, c);
}

}  // namespace

void gemm(DType dtype, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
          int64_t lda, const void* b, int64_t ldb, void* c, int64_t ldc, double alpha,
          double beta) {
  MX_CHECK_DTYPE(dtype != DType::kBool,
                 "matrix product: operands must have a numeric dtype, got bool");
  const FlushSubnormals flush;
  run_one({dtype, trans_a, trans_b, 1, m, n, k, lda, 0, ldb, 0, ldc, 0, alpha, beta}, a, b, c);
}

void gemm_batch(DType dtype, bool trans_a, bool trans_b, int64_t batch, int64_t m, int64_t n,
                int64_t k, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                int64_t stride_b, void* c, int64_t ldc, int64_t stride_c, double alpha,
                double beta) {
  MX_CHECK_DTYPE(dtype != DType::kBool,
                 "matrix product: operands must have a numeric dtype, got bool");
  const FlushSubnormals flush;
  if (batch == 0 || m == 0 || n == 0) return;
  if (m == 1 && n == 1 && (!trans_a || lda == 1) && (trans_b || ldb == 1) && alpha == 1 &&
      beta == 0)
    return dispatch_dtype(dtype, [&]<class T>(T) {
      row_products(batch, k, static_cast<const T*>(a), stride_a, static_cast<const T*>(b), stride_b,
                   static_cast<T*>(c), stride_c);
    });
  if (k == 1 && (!trans_b || ldb == 1) && alpha == 1 && beta == 0)
    return dispatch_dtype(dtype, [&]<class T>(T) {
      outer_products(batch, m, n, static_cast<const T*>(a), stride_a, trans_a ? 1 : lda,
                     static_cast<const T*>(b), stride_b, static_cast<T*>(c), stride_c, ldc);
    });
  const bool small = is_small_gemm(batch * m, n, k);
  if (is_half(dtype) && !small && k > 0 && stride_a && stride_b &&
      gemm_matmul({dtype, trans_a, trans_b, batch, m, n, k, lda, stride_a, ldb, stride_b, ldc,
                   stride_c, alpha, beta},
                  a, b, c))
    return;
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  const Problem one{dtype, trans_a, trans_b, 1, m, n, k, lda, 0, ldb, 0, ldc, 0, alpha, beta};
  const auto run = [&](int64_t i) {
    run_one(one, static_cast<const std::byte*>(a) + i * stride_a * size,
            static_cast<const std::byte*>(b) + i * stride_b * size,
            static_cast<std::byte*>(c) + i * stride_c * size);
  };
  // If there are enough products, each thread computes whole products, because oneDNN opens no
  // nested region.
  const bool outer = !small && batch >= cpu_threads() && !openmp::in_parallel();
  if (outer) {
    const double products = count_products(one);
    parallel_for(batch, static_cast<int64_t>(products) / kProductsPerElement + 1, run);
  } else {
    for (int64_t i = 0; i < batch; ++i) run(i);
  }
}

}  // namespace mxlite::cpu
