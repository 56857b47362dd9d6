// Runs an update rule over arrays block by block: rules see contiguous values of one type (float,
// or double for float64), whatever the arrays hold.
#pragma once
#include <cmath>
#include <limits>

#include "cpp/base/host_device.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/kernel.h"

namespace mxlite::optimizer {

constexpr int kMaxStates = 3;

// One block. weight and new_weight may be the same memory.
template <class C>
struct Block {
  const C* weight;
  const C* grad;
  C* state[kMaxStates];
  C* new_weight;
  int64_t n;
};

// x limited to [-bound, bound]; a NaN stays.
template <class C>
MX_HOST_DEVICE C limited(C x, C bound) {
  return x < -bound ? -bound : (x > bound ? bound : x);
}
// Bound of 1.x's clip parameters: below 0 means none.
template <class C>
MX_HOST_DEVICE C bound_of(double clip) {
  return clip >= 0 ? static_cast<C>(clip) : std::numeric_limits<C>::infinity();
}

struct Operands {
  TensorRef weight, grad;
  std::span<const TensorRef> states;
  const TensorRef* weight32 = nullptr;  // mixed precision: the weight that counts
  TensorRef out;
};

// Reads or writes n values of type C from element `first` on, in place where the array holds C.
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

template <class C, class Rule>
void run_blocks(const Operands& o, const Rule& rule) {
  constexpr int64_t kBlock = pointwise::kBlock;
  const Lane<C> weight(o.weight32 ? *o.weight32 : o.weight), grad(o.grad), out(o.out);
  Lane<C> states[kMaxStates];
  for (size_t i = 0; i < o.states.size(); ++i) states[i] = Lane<C>(o.states[i]);
  pointwise::parallel_ranges(o.out.size(), [&](int64_t first, int64_t last) {
    alignas(64) C buffer[3 + kMaxStates][kBlock];
    for (; first < last; first += kBlock) {
      Block<C> b{};
      b.n = std::min(kBlock, last - first);
      C* old = weight.read(first, b.n, buffer[0]);
      b.weight = old;
      b.grad = grad.read(first, b.n, buffer[1]);
      for (size_t i = 0; i < o.states.size(); ++i)
        b.state[i] = states[i].read(first, b.n, buffer[3 + i]);
      b.new_weight = o.weight32 ? old : out.place(first, buffer[2]);
      rule(b);
      for (size_t i = 0; i < o.states.size(); ++i) states[i].write(b.state[i], first, b.n);
      if (o.weight32) weight.write(b.new_weight, first, b.n);
      out.write(b.new_weight, first, b.n);
    }
  });
}

// rule<C>(params) makes the function that changes one block.
template <template <class> class Rule, class P>
void run_update(const P& params, const Operands& o) {
  if (o.weight.dtype == DType::kFloat64)
    run_blocks<double>(o, Rule<double>(params));
  else
    run_blocks<float>(o, Rule<float>(params));
}

}  // namespace mxlite::optimizer
