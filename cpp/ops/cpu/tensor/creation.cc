#include "cpp/ops/tensor/creation.h"

#include <cstring>

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using pointwise::Compute;
using pointwise::kBlock;
using pointwise::parallel_ranges;

template <class Word>
void fill_words(void* data, const void* value, int64_t n) {
  Word word;
  std::memcpy(&word, value, sizeof(word));
  Word* to = static_cast<Word*>(data);
  parallel_ranges(n, [&](int64_t first, int64_t last) { std::fill(to + first, to + last, word); });
}

void fill_value(const TensorRef& out, Number value) {
  alignas(8) std::byte wide[8], stored[8];
  const Compute c = pointwise::compute_for_arithmetic(out.dtype);
  pointwise::load_scalar(value, out.dtype, c, wide);
  pointwise::store_fn(c, out.dtype)(wide, 1, stored);
  switch (dtype_size(out.dtype)) {
    case 1:
      return fill_words<uint8_t>(out.data, stored, out.size());
    case 2:
      return fill_words<uint16_t>(out.data, stored, out.size());
    case 4:
      return fill_words<uint32_t>(out.data, stored, out.size());
    default:
      return fill_words<uint64_t>(out.data, stored, out.size());
  }
}

// Sets element i to value(i), where i is a double, because vectors of double are faster than
// vectors that are converted from int64_t.
void fill_from_double(const TensorRef& out, auto&& value) {
  const auto store = pointwise::store_fn(Compute::kDouble, out.dtype);
  const auto width = static_cast<int64_t>(dtype_size(out.dtype));
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    double block[kBlock];
    for (; first < last; first += kBlock) {
      const int n = static_cast<int>(std::min(kBlock, last - first));
      const auto begin = static_cast<double>(first);
#pragma omp simd
      for (int i = 0; i < n; ++i) block[i] = value(begin + i);
      store(block, n, out.as<std::byte>() + first * width);
    }
  });
}

// Sets element i to value(i), a double or an int64_t.
void fill_from(const TensorRef& out, auto&& value) {
  using Value = decltype(value(int64_t{0}));
  constexpr Compute c = std::is_same_v<Value, double> ? Compute::kDouble : Compute::kInt64;
  const auto store = pointwise::store_fn(c, out.dtype);
  const auto width = static_cast<int64_t>(dtype_size(out.dtype));
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    Value block[kBlock];
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      for (int64_t i = 0; i < n; ++i) block[i] = value(first + i);
      store(block, n, out.as<std::byte>() + first * width);
    }
  });
}

void zeros(KernelContext&, const FillParams&, Inputs, Outputs out) { fill_value(out[0], 0); }
void ones(KernelContext&, const FillParams&, Inputs, Outputs out) { fill_value(out[0], 1); }
void full(KernelContext&, const FullParams& p, Inputs, Outputs out) { fill_value(out[0], p.value); }
void zeros_like(KernelContext&, const LikeParams&, Inputs, Outputs out) { fill_value(out[0], 0); }
void ones_like(KernelContext&, const LikeParams&, Inputs, Outputs out) { fill_value(out[0], 1); }

void arange(KernelContext&, const ArangeParams& p, Inputs, Outputs out) {
  const Number start = p.stop ? p.start : Number(0);
  if (is_floating(out[0].dtype)) {
    const double first = start, step = p.step;
    if (p.repeat == 1)  // without a division per element
      fill_from_double(out[0], [=](double i) { return first + i * step; });
    else
      fill_from(out[0],
                [&](int64_t i) { return first + static_cast<double>(i / p.repeat) * step; });
  } else {  // as in NumPy, all steps are equal integers
    const auto first = start.as<uint64_t>(), step = p.step.as<uint64_t>();
    fill_from(out[0], [&](int64_t i) {  // unsigned, so that a value beyond the dtype wraps
      return static_cast<int64_t>(first + static_cast<uint64_t>(i / p.repeat) * step);
    });
  }
}

void linspace(KernelContext&, const LinspaceParams& p, Inputs, Outputs out) {
  const int64_t parts = p.endpoint ? p.num - 1 : p.num;
  const double step = parts > 0 ? (p.stop - p.start) / static_cast<double>(parts) : 0.0;
  const double start = p.start, stop = p.stop;
  const double last = p.endpoint && parts > 0 ? static_cast<double>(parts) : -1.0;
  fill_from_double(out[0], [=](double i) { return i == last ? stop : start + i * step; });
}

void eye(KernelContext&, const EyeParams& p, Inputs, Outputs out) {
  const int64_t columns = out[0].shape[1];
  fill_from(out[0], [&](int64_t i) { return i % columns - i / columns == p.k ? 1.0 : 0.0; });
}

}  // namespace

static const Registration creation_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&zeros>("_zeros");
  ops.cpu_kernel<&ones>("_ones");
  ops.cpu_kernel<&full>("_full");
  ops.cpu_kernel<&zeros_like>("zeros_like", kStrided);
  ops.cpu_kernel<&ones_like>("ones_like", kStrided);
  ops.cpu_kernel<&arange>("_arange");
  ops.cpu_kernel<&eye>("_eye");
  ops.cpu_kernel<&linspace>("_linspace");
});

}  // namespace mxlite
