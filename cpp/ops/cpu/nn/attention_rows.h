// Operations on a row of scores between the matrix products: mask, exponentials, dropout. Included
// once per instruction set, after attention_tile.h.
#pragma once

namespace mxlite::cpu {
namespace {

// Returns exp(x) within 2 ulp for x < 80, 0 for x < -86, and NaN for NaN. The integer part of x /
// ln 2 becomes the exponent; a polynomial computes the rest.
MX_INLINE typename Register<float>::Vec exp_of(typename Register<float>::Vec x) {
  using Vec = typename Register<float>::Vec;
  using Bits [[gnu::vector_size(Register<float>::kBytes)]] = int32_t;
  const Vec shifted = x * 1.44269504089f + 12582912.0f;  // adding 1.5 * 2^23 rounds to an integer
  const Vec n = shifted - 12582912.0f;
  const Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  Bits power, bits;
  std::memcpy(&power, &shifted, sizeof power);
  std::memcpy(&bits, &p, sizeof bits);
  bits += power << 23;
  std::memcpy(&p, &bits, sizeof p);
  p = x < -86.0f ? Vec{} : p;
  return x == x ? p : x;
}
MX_INLINE typename Register<double>::Vec exp_of(typename Register<double>::Vec x) {
  for (int64_t i = 0; i < Register<double>::kCount; ++i) x[i] = std::exp(x[i]);
  return x;
}

// Combines the elements of a vector by op(Vec, Vec) pairwise: halves, quarters and so on.
template <class T, int64_t kStep = Register<T>::kCount / 2, class F>
MX_INLINE T fold(typename Register<T>::Vec v, F&& op) {
  if constexpr (kStep == 0) {
    return v[0];
  } else {
    using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    using Mask [[gnu::vector_size(Register<T>::kBytes)]] = Index;
    Mask partner;
    for (int64_t i = 0; i < Register<T>::kCount; ++i) partner[i] = static_cast<Index>(i ^ kStep);
    return fold<T, kStep / 2>(op(v, __builtin_shuffle(v, partner)), op);
  }
}
template <class T>
MX_INLINE T fold_sum(typename Register<T>::Vec v) {
  return fold<T>(v, [](auto a, auto b) { return a + b; });
}
template <class T>
MX_INLINE T fold_max(typename Register<T>::Vec v) {
  return fold<T>(v, [](auto a, auto b) { return a > b ? a : b; });
}

// Values of one row of a block of scores, padded to whole vectors.
template <class T>
struct ScoreRow {
  using Vec = typename Register<T>::Vec;
  static constexpr int64_t kStep = Register<T>::kCount;

  T* values;
  int64_t padded;  // a multiple of the number of lanes

  MX_INLINE Vec at(int64_t i) const {
    Vec v;
    std::memcpy(&v, values + i, sizeof v);
    return v;
  }
  MX_INLINE void put(int64_t i, Vec v) const { std::memcpy(values + i, &v, sizeof v); }

  // Adds the mask to the first `valid` scores and sets the other scores to -inf, so that their
  // weight is 0.
  void mask_scores(int64_t valid, const HeadRows* mask, int64_t row, int64_t first) const {
    if (mask)
      with_floating(mask->dtype, [&]<class U>(U) {
        const U* added = static_cast<const U*>(mask->at(row, first));
        // A masked score gets weight 0 even if the score is infinite or NaN.
        const auto masked = [](T score, T m) {
          constexpr T kHidden = -std::numeric_limits<T>::infinity();
          return m <= static_cast<T>(kMaskedScore) ? kHidden : score + m;
        };
        if (mask->column == 1)
          for (int64_t i = 0; i < valid; ++i)
            values[i] = masked(values[i], static_cast<T>(added[i]));
        else
          for (int64_t i = 0; i < valid; ++i)
            values[i] = masked(values[i], static_cast<T>(added[i * mask->column]));
      });
    std::fill(values + valid, values + padded, -std::numeric_limits<T>::infinity());
  }

  T max_with(T least) const {
    Vec best = Vec{} + least;
    for (int64_t i = 0; i < padded; i += kStep) {
      const Vec v = at(i);
      best = v > best ? v : best;
    }
    return fold_max<T>(best);
  }

  // Replaces scores by exp(score - center), or by 0 if masked. Returns the sum.
  T exponentials(T center) const {
    Vec total = {};
    for (int64_t i = 0; i < padded; i += kStep) {
      const Vec v = at(i);
      const Vec e = v <= static_cast<T>(kMaskedScore) ? Vec{} : exp_of(v - center);
      put(i, e);
      total += e;
    }
    return fold_sum<T>(total);
  }

  void scale(T factor) const {
    for (int64_t i = 0; i < padded; i += kStep) put(i, at(i) * factor);
  }
};

// Computes dropout's factors of a row, starting at key `first`, a multiple of
// attention_dropout::kKeys. Writes whole groups of attention_dropout::kStreams.
template <class T>
void dropout_factors(const AttentionCall& c, int64_t row, int64_t first, int64_t padded, T* to) {
  constexpr int64_t kStreams = attention_dropout::kStreams, kKeys = attention_dropout::kKeys;
  const uint64_t counter = c.random.offset + static_cast<uint64_t>(row);
  const T kept = static_cast<T>(attention_dropout::kept_factor(c.dropout));
  for (int64_t k = 0; k < padded; k += kKeys) {
    alignas(64) uint32_t words[4][kStreams];
    // Stream numbers of one block differ only in their lowest bits.
    const auto stream = static_cast<uint64_t>((first + k) / kKeys * kStreams);
#pragma omp simd
    for (int64_t j = 0; j < kStreams; ++j) {
      words[0][j] = static_cast<uint32_t>(counter);
      words[1][j] = static_cast<uint32_t>(counter >> 32);
      words[2][j] = static_cast<uint32_t>(stream) + static_cast<uint32_t>(j);
      words[3][j] = static_cast<uint32_t>(stream >> 32);
    }
    random::philox_rounds(c.random.seed, words);
    for (int64_t w = 0; w < 4 && k + w * kStreams < padded; ++w) {
      T* const factors = to + k + w * kStreams;
#pragma omp simd
      for (int64_t j = 0; j < kStreams; ++j)
        factors[j] = attention_dropout::keeps(words[w][j], c.dropout) ? kept : T(0);
    }
  }
}

// Returns the number n of keys that query `row` of sample b attends to, which are the keys [0, n).
inline int64_t attended_keys(const AttentionCall& c, int64_t b, int64_t row) {
  const int64_t length = c.lengths[static_cast<size_t>(b)];
  if (!c.causal) return length;
  return std::clamp<int64_t>(row + 1 + c.k_length - c.q_length, 0, length);
}

}  // namespace
}  // namespace mxlite::cpu
