#include "cpp/ops/cpu/packed_product.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <unordered_map>

#include "cpp/core/openmp.h"
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/cpu/onednn/pair_panels.h"
#include "cpp/ops/cpu/pack_pairs.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

using onednn::Desc;

struct Sizes {
  int64_t m, n, k;
  bool operator==(const Sizes&) const = default;
};
struct SizesHash {
  size_t operator()(const Sizes& s) const {
    size_t h = 0;
    for (const int64_t v : {s.m, s.n, s.k}) h = (h ^ static_cast<size_t>(v)) * 0x9E3779B97F4A7C15;
    return h;
  }
};

struct Product {
  onednn::Primitive primitive;  // empty if oneDNN has no kernel for this processor
  PairPanels panels;
  size_t packed_bytes = 0;
};

Product make_product(const Sizes& s) {
  constexpr auto kType = dnnl::memory::data_type::bf16;
  const auto plain = [&](int64_t rows, int64_t columns) {
    return Desc({rows, columns}, kType, dnnl::memory::format_tag::ab);
  };
  onednn::apply_thread_count(
      onednn::product_work(static_cast<double>(s.m * s.n) * static_cast<double>(s.k)));
  const dnnl::matmul::primitive_desc pd(onednn::engine(), plain(s.m, s.k),
                                        onednn::any_desc(plain(s.k, s.n)), plain(s.m, s.n),
                                        onednn::user_scratchpad(), /*allow_empty=*/true);
  if (!pd.get(/*allow_empty=*/true)) return {};
  const auto panels = onednn::pair_panels(pd.weights_desc());
  if (!panels || std::string_view(pd.impl_info_str()).starts_with("ref")) return {};
  return {onednn::Primitive(pd), panels->panels, pd.weights_desc().get_size()};
}

// Memory of a thread in whole cache lines; it never shrinks.
class Buffer {
 public:
  void* get(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > size_) {
      memory_.reset();
      memory_.reset(std::aligned_alloc(64, bytes));
      if (!memory_) throw std::bad_alloc();
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

}  // namespace

bool is_worth_packing(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kLeast = 64, kLeastRows = 256;
  return m > kLeastRows && n >= kLeast && k >= kLeast;
}

bool packed_product(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const void* a,
                    const void* b, void* c) {
  constexpr size_t kMostEntries = 256;
  if (!is_worth_packing(m, n, k) || !has_avx512() || openmp::in_parallel()) return false;
  static thread_local std::unordered_map<Sizes, Product, SizesHash> cache;
  const Sizes sizes{m, n, k};
  auto found = cache.find(sizes);
  if (found == cache.end()) {
    if (cache.size() >= kMostEntries) cache.clear();
    found = cache.emplace(sizes, make_product(sizes)).first;
  }
  const Product& product = found->second;
  if (!product.primitive) return false;
  static thread_local Buffer buffer;
  const auto aligned = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  const size_t left_bytes = trans_a ? static_cast<size_t>(m * k) * sizeof(uint16_t) : 0;
  const size_t packed_at = aligned(left_bytes);
  const size_t scratch_at = packed_at + aligned(product.packed_bytes);
  auto* const memory =
      static_cast<std::byte*>(buffer.get(scratch_at + product.primitive.scratch_bytes()));
  if (trans_a) {
    transpose_halves(static_cast<const uint16_t*>(a), k, m, reinterpret_cast<uint16_t*>(memory));
    a = memory;
  }
  pack_pairs(static_cast<const uint16_t*>(b), trans_b, product.panels,
             reinterpret_cast<uint16_t*>(memory + packed_at));
  product.primitive.run(
      {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, memory + packed_at}, {DNNL_ARG_DST, c}},
      memory + scratch_at);
  return true;
}

}  // namespace mxlite::cpu
