// Runs an update rule over arrays block by block. Rules get contiguous values of one type (float,
// or double for float64) for arrays of any dtype.
#pragma once
#include <cstring>
#include <limits>
#include <vector>

#include "cpp/base/host_device.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/kernel.h"

namespace mxlite::optimizer {

constexpr int kMaxStates = 3;

// One block. `weight` and `new_weight` may be the same memory.
template <class C>
struct Block {
  const C* weight;
  const C* grad;
  C* state[kMaxStates];
  C* new_weight;
  int64_t n;
};

// Returns x clamped to [-bound, bound], or NaN for NaN.
template <class C>
MX_HOST_DEVICE C limited(C x, C bound) {
  return x < -bound ? -bound : (x > bound ? bound : x);
}
// Returns the bound given by 1.x's clip parameters, where a negative value means none.
template <class C>
MX_HOST_DEVICE C bound_of(double clip) {
  return clip >= 0 ? static_cast<C>(clip) : std::numeric_limits<C>::infinity();
}

struct Operands {
  TensorRef weight, grad;
  std::span<const TensorRef> states;
  const TensorRef* weight32 = nullptr;  // for mixed precision: the float32 master weight
  TensorRef out;
};

// Reads or writes n values of type C, starting at element `first`, in place if the array has type
// C.
template <class C>
class Lane {
 public:
  Lane() = default;
  explicit Lane(const TensorRef& array) {
    constexpr auto kType =
        std::is_same_v<C, float> ? pointwise::Compute::kFloat : pointwise::Compute::kDouble;
    data_ = array.as<std::byte>();
    width_ = static_cast<int64_t>(dtype_size(array.dtype));
    stored_ = pointwise::stored_as(array.dtype, kType);
    load_ = pointwise::load_fn(array.dtype, kType);
    store_ = pointwise::store_fn(kType, array.dtype);
  }
  C* read(int64_t first, int64_t n, C* buffer) const {
    if (stored_) return reinterpret_cast<C*>(data_ + first * width_);
    load_(data_ + first * width_, 1, n, buffer);
    return buffer;
  }
  C* place(int64_t first, C* buffer) const {
    return stored_ ? reinterpret_cast<C*>(data_ + first * width_) : buffer;
  }
  void write(const C* values, int64_t first, int64_t n) const {
    if (values != reinterpret_cast<const C*>(data_ + first * width_))
      store_(values, n, data_ + first * width_);
  }

 private:
  std::byte* data_ = nullptr;
  int64_t width_ = 0;
  bool stored_ = false;
  pointwise::LoadFn load_ = nullptr;
  pointwise::StoreFn store_ = nullptr;
};

// Updates one weight.
template <class C, class Rule>
class BlockUpdate {
 public:
  BlockUpdate(const Operands& o, const Rule& rule)
      : size_(o.out.size()),
        count_(o.states.size()),
        mixed_(o.weight32 != nullptr),
        weight_(mixed_ ? *o.weight32 : o.weight),
        grad_(o.grad),
        out_(o.out),
        rule_(rule) {
    for (size_t i = 0; i < count_; ++i) states_[i] = Lane<C>(o.states[i]);
  }
  int64_t size() const { return size_; }

  // `first` must be a multiple of kBlock.
  void run(int64_t first, int64_t last) const {
    constexpr int64_t kBlock = pointwise::kBlock;
    alignas(64) C buffer[3 + kMaxStates][kBlock];
    for (; first < last; first += kBlock) {
      Block<C> b{};
      b.n = std::min(kBlock, last - first);
      C* old = weight_.read(first, b.n, buffer[0]);
      b.weight = old;
      b.grad = grad_.read(first, b.n, buffer[1]);
      for (size_t i = 0; i < count_; ++i) b.state[i] = states_[i].read(first, b.n, buffer[3 + i]);
      b.new_weight = mixed_ ? old : out_.place(first, buffer[2]);
      rule_(b);
      for (size_t i = 0; i < count_; ++i) states_[i].write(b.state[i], first, b.n);
      if (mixed_) weight_.write(b.new_weight, first, b.n);
      out_.write(b.new_weight, first, b.n);
    }
  }

 private:
  int64_t size_;
  size_t count_;
  bool mixed_;
  Lane<C> weight_, grad_, out_, states_[kMaxStates];
  Rule rule_;
};

template <class C, class Rule>
void run_blocks(const Operands& o, const Rule& rule) {
  const BlockUpdate<C, Rule> update(o, rule);
  pointwise::parallel_ranges(update.size(),
                             [&](int64_t first, int64_t last) { update.run(first, last); });
}

// Divides the blocks of several arrays among threads in one parallel region: calls fn(array, first,
// last), where `first` is a multiple of kBlock.
void parallel_blocks(std::span<const int64_t> sizes, auto&& fn) {
  constexpr int64_t kBlock = pointwise::kBlock;
  std::vector<int64_t> begin = {0};  // first position of each array, rounded up to a block
  for (const int64_t size : sizes)
    begin.push_back(begin.back() + (size + kBlock - 1) / kBlock * kBlock);
  pointwise::parallel_ranges(begin.back(), [&](int64_t first, int64_t last) {
    auto i = static_cast<size_t>(std::upper_bound(begin.begin(), begin.end(), first) -
                                 begin.begin() - 1);
    for (; i < sizes.size() && begin[i] < last; ++i)
      fn(i, std::max(first - begin[i], int64_t{0}), std::min(last - begin[i], sizes[i]));
  });
}

template <class C, class Rule>
void run_blocks_of_all(const std::vector<BlockUpdate<C, Rule>>& updates) {
  std::vector<int64_t> sizes;
  for (const auto& update : updates) sizes.push_back(update.size());
  parallel_blocks(sizes,
                  [&](size_t w, int64_t first, int64_t last) { updates[w].run(first, last); });
}

// Multiplies the rule's gradient factor by `scale`. The second phase of LAMB has no such factor.
template <class C, class Rule>
MX_HOST_DEVICE void scale_gradient(Rule& rule, double scale) {
  if constexpr (requires { rule.base; })
    rule.base.rescale *= static_cast<C>(scale);
  else if constexpr (requires { rule.rescale; })
    rule.rescale *= static_cast<C>(scale);
}
// Returns whether this factor of the gradients is 0, infinite or NaN; the weights then stay
// unchanged.
MX_HOST_DEVICE inline bool skips(double scale) { return !(scale - scale == 0) || scale == 0; }

// Copies the weight to the output without reading the float32 weight.
inline void keep_weight(const Operands& o) {
  if (o.out.data != o.weight.data) std::memcpy(o.out.data, o.weight.data, o.weight.bytes());
}

inline double number_at(const TensorRef& t, size_t i) {
  double value = 0;
  pointwise::load_fn(t.dtype, pointwise::Compute::kDouble)(
      t.as<std::byte>() + i * dtype_size(t.dtype), 1, 1, &value);
  return value;
}

// Rule<C>(params) constructs the function that updates one block.
template <template <class> class Rule, class P>
void run_update(const P& params, const Operands& o, const TensorRef* scale = nullptr) {
  const double factor = scale ? number_at(*scale, 0) : 1;
  if (scale && skips(factor)) return keep_weight(o);
  const auto run = [&](auto c) {
    using C = decltype(c);
    Rule<C> rule(params);
    if (scale) scale_gradient<C>(rule, factor);
    run_blocks<C>(o, rule);
  };
  if (o.weight.dtype == DType::kFloat64)
    run(double{});
  else
    run(float{});
}

}  // namespace mxlite::optimizer
