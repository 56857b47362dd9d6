#include <algorithm>
#include <limits>

#include "cpp/ops/cpu/ordering.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/cpu/random/fast_fill.h"
#include "cpp/ops/random/draw.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace random {
namespace {

using pointwise::Compute;
using pointwise::kBlock;
using pointwise::parallel_ranges;

// Sets element i to value(i).
void fill_elements(const TensorRef& out, Compute c, auto&& value) {
  using V = decltype(value(int64_t{0}));
  const auto store = pointwise::store_fn(c, out.dtype);
  const auto width = static_cast<int64_t>(dtype_size(out.dtype));
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    V block[kBlock];
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      for (int64_t i = 0; i < n; ++i) block[i] = value(first + i);
      store(block, n, out.as<std::byte>() + first * width);
    }
  });
}

template <class D>
void fill_with(KernelContext& ctx, double a, double b, const TensorRef& out) {
  if constexpr (std::is_same_v<D, Uniform>) {
    fill_uniform(ctx.random, a, b, out);
  } else if constexpr (std::is_same_v<D, Normal>) {
    fill_normal(ctx.random, a, b, out);
  } else {
    fill_elements(out, Compute::kDouble, [&](int64_t i) {
      Stream stream(ctx.random, i);
      return draw(D{}, stream, a, b);
    });
  }
}

template <class D>
void draw_numbers(KernelContext& ctx, const DrawParams<D>& p, Inputs, Outputs out) {
  check_numbers<D>("", p.a, p.b);
  fill_with<D>(ctx, p.a, p.b, out[0]);
}

template <class D>
void draw_like(KernelContext& ctx, const LikeParams<D>& p, Inputs, Outputs out) {
  check_numbers<D>("_like", p.a, p.b);
  fill_with<D>(ctx, p.a, p.b, out[0]);
}

// Draws one row per element of the parameter arrays.
template <class D>
void sample(KernelContext& ctx, const SampleParams&, Inputs in, Outputs out) {
  const int64_t row = out[0].size() / in[0].size();
  const auto load = pointwise::load_fn(in[0].dtype, Compute::kDouble);
  const auto width = static_cast<int64_t>(dtype_size(in[0].dtype));
  fill_elements(out[0], Compute::kDouble, [&](int64_t i) {
    double a = 0, b = 0;
    load(in[0].as<std::byte>() + i / row * width, 1, 1, &a);
    if (D::count == 2) load(in[1].as<std::byte>() + i / row * width, 1, 1, &b);
    Stream stream(ctx.random, i);
    return draw_number(D{}, stream, a, b, out[0].dtype);
  });
}

void randint(KernelContext& ctx, const RandintParams& p, Inputs, Outputs out) {
  const uint64_t range = static_cast<uint64_t>(p.high) - static_cast<uint64_t>(p.low);
  const auto low = static_cast<uint64_t>(p.low);
  if (range >= uint64_t{1} << 32) {
    fill_elements(out[0], Compute::kInt64, [&](int64_t i) {
      Stream stream(ctx.random, i);
      return static_cast<int64_t>(low + stream.below(range));
    });
    return;
  }
  // Blocks get the numbers that Stream::below would return. The high half of the product is
  // computed from two 32-bit parts.
  const auto store = pointwise::store_fn(Compute::kInt64, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(out[0].dtype));
  static_assert(kWordBlock == kBlock);
  parallel_ranges(out[0].size(), [=, &ctx, &out](int64_t first, int64_t last) {
    uint32_t high_words[kBlock], low_words[kBlock];
    int64_t values[kBlock];
    const uint64_t start = low;
    const auto count = static_cast<uint32_t>(range);
    for (; first < last; first += kBlock) {
      first_words(ctx.random, first, high_words, low_words);
#pragma omp simd
      for (int64_t i = 0; i < kBlock; ++i) {
        const uint64_t high =
            uint64_t{high_words[i]} * count + (uint64_t{low_words[i]} * count >> 32);
        values[i] = static_cast<int64_t>(start + (high >> 32));
      }
      store(values, std::min(kBlock, last - first), out[0].as<std::byte>() + first * width);
    }
  });
}

void multinomial(KernelContext& ctx, const MultinomialParams& p, Inputs in, Outputs out) {
  if (out[0].size() == 0) return;
  const TensorRef& data = in[0];
  const int64_t classes = data.shape.back();
  const int64_t rows = data.size() / classes, draws = out[0].size() / rows;
  const auto load = pointwise::load_fn(data.dtype, Compute::kDouble);
  const auto store = pointwise::store_fn(Compute::kInt64, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(data.dtype));
  const auto out_width = static_cast<int64_t>(dtype_size(out[0].dtype));
  double* sums = static_cast<double*>(ctx.scratch(static_cast<size_t>(classes) * sizeof(double)));
  for (int64_t row = 0; row < rows; ++row) {
    load(data.as<std::byte>() + row * classes * width, 1, classes, sums);
    int64_t last = 0;  // prevents rounding from selecting a class of probability 0
    double total = 0;
    for (int64_t k = 0; k < classes; ++k) {
      MX_CHECK(sums[k] >= 0, "sample_multinomial: the probability of class ", k, " in row ", row,
               " must be at least 0, got ", sums[k]);
      if (sums[k] > 0) last = k;
      sums[k] = total += sums[k];
    }
    MX_CHECK(total > 0 && std::isfinite(total),
             "sample_multinomial: the sum of the probabilities in row ", row,
             " must be finite and above 0, got ", total);
    for (int64_t i = row * draws; i < (row + 1) * draws; ++i) {
      Stream stream(ctx.random, i);
      const double level = stream.uniform() * total;
      const int64_t index =
          std::min<int64_t>(std::upper_bound(sums, sums + classes, level) - sums, last);
      store(&index, 1, out[0].as<std::byte>() + i * out_width);
      if (!p.get_prob) continue;
      double probability = 0;
      load(data.as<std::byte>() + (row * classes + index) * width, 1, 1, &probability);
      const double logarithm = std::log(probability);
      pointwise::store_fn(Compute::kDouble, out[1].dtype)(&logarithm, 1,
                                                          out[1].as<std::byte>() + i * width);
    }
  }
}

void multinomial_backward(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const TensorRef &grad = in[0], &data = in[1], &draws = in[2];
  std::fill_n(out[0].as<std::byte>(), out[0].bytes(), std::byte{0});
  const int64_t classes = data.shape.back();
  const int64_t rows = data.size() / classes;
  if (rows == 0) return;
  const int64_t per_row = draws.size() / rows;
  dispatch_floating("_multinomial_backward", data.dtype, [&](auto t) {
    using T = decltype(t);
    const auto load_index = pointwise::load_fn(draws.dtype, Compute::kDouble);
    for (int64_t i = 0; i < draws.size(); ++i) {
      double k = 0;
      load_index(draws.as<std::byte>() + i * static_cast<int64_t>(dtype_size(draws.dtype)), 1, 1,
                 &k);
      const int64_t at = i / per_row * classes + static_cast<int64_t>(k);
      using C = ComputeType<T>;
      T& cell = out[0].as<T>()[at];
      cell = T(static_cast<C>(cell) +
               static_cast<C>(grad.as<T>()[i]) / static_cast<C>(data.as<T>()[at]));
    }
  });
}

// Returns the order of the rows, stored in `entries`, which has room for 2 * n. With 32-bit
// indices, an entry contains the upper half of its row's key; entries with equal halves are few and
// are compared by the whole key.
template <class Entry>
const Entry* shuffled(RandomState state, Entry* entries, int64_t n) {
  constexpr int kLeftOut = Entry::kKeyBits == 32 ? 31 : 0;
  parallel_ranges(n, [=](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      entries[i] = Entry::make(static_cast<uint64_t>(shuffle_key(state, i)) >> kLeftOut, i);
  });
  Entry* const order = cpu::sort_entries(entries, entries + n, n);
  for (int64_t first = 0, end = 1; first < n; first = end++) {
    while (end < n && order[end].key() == order[first].key()) ++end;
    if (end - first > 1)
      std::stable_sort(order + first, order + end, [&](const Entry& a, const Entry& b) {
        return shuffle_key(state, a.index()) < shuffle_key(state, b.index());
      });
  }
  return order;
}

void shuffle(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const int64_t n = in[0].shape[0];
  if (in[0].size() == 0) return;
  const auto bytes = static_cast<int64_t>(in[0].bytes()) / n;
  const auto move = [&]<class Entry>(Entry) {
    const size_t room = 2 * static_cast<size_t>(n) * sizeof(Entry);
    const Entry* const order = shuffled(ctx.random, static_cast<Entry*>(ctx.scratch(room)), n);
    for (int64_t i = 0; i < n; ++i)
      std::copy_n(in[0].as<std::byte>() + order[i].index() * bytes, bytes,
                  out[0].as<std::byte>() + i * bytes);
  };
  if (n <= std::numeric_limits<uint32_t>::max())
    move(cpu::NarrowEntry{});
  else
    move(cpu::WideEntry{});
}

}  // namespace
}  // namespace random

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace random;  // NOLINT: this folder's own names
  for_each_distribution([&](auto d) {
    using D = decltype(d);
    const std::string name = D::name;
    ops.cpu_kernel<&draw_numbers<D>>("random_" + name);
    ops.cpu_kernel<&draw_like<D>>("_random_" + name + "_like", {.strided_inputs = true});
    ops.cpu_kernel<&sample<D>>("sample_" + name);
  });
  ops.cpu_kernel<&randint>("random_randint");
  ops.cpu_kernel<&multinomial>("sample_multinomial");
  ops.cpu_kernel<&multinomial_backward>("_multinomial_backward");
  ops.cpu_kernel<&shuffle>("shuffle");
});

}  // namespace mxlite
