#include "cpp/ops/cpu/random/fast_fill.h"

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/random/draw.h"
#include "cpp/ops/random/philox_rounds.h"

namespace mxlite::random {
namespace {

using pointwise::Compute;
using pointwise::kBlock;

// With the counter order of draw.h, loops over counters vectorize.
static_assert(kBlock == kFillBlock);
constexpr int64_t kCounters = kBlock / 4;
constexpr int64_t kCountersDouble = kBlock / 2;

template <int64_t n>
void philox_block(uint64_t seed, uint64_t first, uint32_t (*words)[n]) {
  for (int64_t j = 0; j < n; ++j) {
    const uint64_t counter = first + static_cast<uint64_t>(j);
    words[0][j] = static_cast<uint32_t>(counter);
    words[1][j] = static_cast<uint32_t>(counter >> 32);
    words[2][j] = words[3][j] = 0;
  }
  philox_rounds(seed, words);
}

void uniform_block(const RandomState& state, int64_t block, float* out) {
  uint32_t words[4][kCounters];
  philox_block(state.seed, state.offset + static_cast<uint64_t>(block * kCounters), words);
  for (int64_t i = 0; i < kBlock; ++i) out[i] = to_uniform((&words[0][0])[i]);
}

void normal_block(const RandomState& state, int64_t block, float* out) {
  uint32_t words[4][kCounters];
  philox_block(state.seed, state.offset + static_cast<uint64_t>(block * kCounters), words);
  for (int pair = 0; pair < 4; pair += 2) {
    float* first = out + pair * kCounters;
    float* second = first + kCounters;
#pragma omp simd
    for (int64_t j = 0; j < kCounters; ++j) {
      const float radius = std::sqrt(-2.0f * pointwise::log_of(1.0f - to_uniform(words[pair][j])));
      const SinCos angle = sincos_turn(to_uniform(words[pair + 1][j]));
      first[j] = radius * angle.cos;
      second[j] = radius * angle.sin;
    }
  }
}

void uniform_block(const RandomState& state, int64_t block, double* out) {
  uint32_t words[4][kCountersDouble];
  philox_block(state.seed, state.offset + static_cast<uint64_t>(block * kCountersDouble), words);
  for (int64_t j = 0; j < kCountersDouble; ++j) {
    out[j] = to_uniform_double(words[0][j], words[1][j]);
    out[kCountersDouble + j] = to_uniform_double(words[2][j], words[3][j]);
  }
}

void normal_block(const RandomState& state, int64_t block, double* out) {
  uniform_block(state, block, out);
  for (int64_t j = 0; j < kCountersDouble; ++j) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - out[j]));
    const double angle = 6.283185307179586 * out[kCountersDouble + j];
    out[j] = radius * std::cos(angle);
    out[kCountersDouble + j] = radius * std::sin(angle);
  }
}

// Stores blocks of values of type C. block(index, values) computes one block.
template <class C, class F>
void fill(const TensorRef& out, F&& block) {
  const auto store =
      pointwise::store_fn(std::is_same_v<C, float> ? Compute::kFloat : Compute::kDouble, out.dtype);
  const auto width = static_cast<int64_t>(dtype_size(out.dtype));
  pointwise::parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    alignas(64) C values[kBlock];
    for (; first < last; first += kBlock) {
      block(first / kBlock, values);
      store(values, std::min(kBlock, last - first), out.as<std::byte>() + first * width);
    }
  });
}

template <class C>
void fill_uniform(RandomState state, double low, double high, const TensorRef& out) {
  const OpenInterval interval(low, high, out.dtype);
  const C a = static_cast<C>(low), b = static_cast<C>(high - low);
  const C steps = static_cast<C>(uniform_steps(out.dtype));
  fill<C>(out, [=, halves = is_half(out.dtype)](int64_t block, C* values) {
    uniform_block(state, block, values);
    if (halves)
      for (int64_t i = 0; i < kBlock; ++i) values[i] = std::floor(values[i] * steps) / steps;
    for (int64_t i = 0; i < kBlock; ++i)
      values[i] = interval.clamp(a + b * std::max(values[i], C(0.5) / steps));
  });
}

template <class C>
void fill_normal(RandomState state, double mean, double deviation, const TensorRef& out) {
  const C a = static_cast<C>(mean), b = static_cast<C>(deviation);
  fill<C>(out, [=](int64_t block, C* values) {
    normal_block(state, block, values);
    for (int64_t i = 0; i < kBlock; ++i) values[i] = a + b * values[i];
  });
}

}  // namespace

void first_words(RandomState state, int64_t first, uint32_t* high, uint32_t* low) {
  uint32_t words[4][kWordBlock];
  philox_block(state.seed, state.offset + static_cast<uint64_t>(first), words);
  std::copy_n(words[0], kWordBlock, high);
  std::copy_n(words[1], kWordBlock, low);
}

void fill_uniform(RandomState state, double low, double high, const TensorRef& out) {
  (out.dtype == DType::kFloat64 ? fill_uniform<double> : fill_uniform<float>)(state, low, high,
                                                                              out);
}

void fill_normal(RandomState state, double mean, double deviation, const TensorRef& out) {
  (out.dtype == DType::kFloat64 ? fill_normal<double> : fill_normal<float>)(state, mean, deviation,
                                                                            out);
}

}  // namespace mxlite::random
