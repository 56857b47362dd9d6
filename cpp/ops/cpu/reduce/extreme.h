// Extreme values of runs and their positions, found with vectors. NaN is the most extreme value.
#pragma once
#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mxlite::reduce {

struct Largest {
  static auto ahead(auto x, auto best) { return x > best; }
};
struct Smallest {
  static auto ahead(auto x, auto best) { return x < best; }
};

// Returns whether x replaces the best of the values before it; the first NaN stays.
template <class Order>
bool is_better(auto x, auto best) {
  return (Order::ahead(x, best) || x != x) && best == best;
}

constexpr int64_t kVectorBytes = 32;
template <class T>
constexpr int64_t kVectorLength = kVectorBytes / sizeof(T);
template <class T>
using Vector [[gnu::vector_size(kVectorBytes)]] = T;

template <class T>
Vector<T> load_vector(const T* x) {
  Vector<T> v;
  std::memcpy(&v, x, sizeof(v));
  return v;
}

// Returns a bit for each byte of a comparison's result; bits of true elements are set.
inline uint32_t bits_of(const auto& comparison) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(std::bit_cast<__m256i>(comparison)));
}

// Returns the first of n positions for which found(value) is true, or n.
template <class T>
int64_t find_first(const T* x, int64_t n, auto&& found) {
  int64_t i = 0;
  for (; i + kVectorLength<T> <= n; i += kVectorLength<T>)
    if (const uint32_t bits = bits_of(found(load_vector(x + i))))
      return i + std::countr_zero(bits) / static_cast<int>(sizeof(T));
  for (; i < n; ++i)
    if (found(x[i])) return i;
  return n;
}

// Returns how many bytes are not 0.
inline int64_t count_nonzero(const uint8_t* x, int64_t n) {
  const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
  __m256i sums = zero;
  int64_t i = 0;
  for (; i + kVectorBytes <= n; i += kVectorBytes) {
    const __m256i bytes = std::bit_cast<__m256i>(load_vector(x + i));
    sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_min_epu8(bytes, one), zero));
  }
  const auto parts = std::bit_cast<Vector<int64_t>>(sums);
  int64_t total = parts[0] + parts[1] + parts[2] + parts[3];
  for (; i < n; ++i) total += x[i] != 0;
  return total;
}

// Returns the best of n > 0 adjacent values, or NaN if there is one.
template <class Order, class T>
T find_extreme(const T* x, int64_t n) {
  constexpr int64_t kLength = kVectorLength<T>, kCount = 4;  // hide the latency of comparisons
  T best = x[0];
  if (n < kLength) {
    for (int64_t i = 1; i < n; ++i) best = is_better<Order>(x[i], best) ? x[i] : best;
    return best;
  }
  const auto better = [](Vector<T> a, Vector<T> b) { return Order::ahead(a, b) ? a : b; };
  Vector<T> lanes[kCount];
  for (auto& lane : lanes) lane = load_vector(x);
  auto unordered = lanes[0] != lanes[0];
  int64_t i = 0;
  for (; i + kCount * kLength <= n; i += kCount * kLength)
    for (int64_t k = 0; k < kCount; ++k) {
      const Vector<T> v = load_vector(x + i + k * kLength);
      lanes[k] = better(v, lanes[k]);
      unordered |= v != v;
    }
  for (; i < n; i += kLength) {  // the last vector may overlap its predecessor
    const Vector<T> v = load_vector(x + (i + kLength <= n ? i : n - kLength));
    lanes[0] = better(v, lanes[0]);
    unordered |= v != v;
  }
  if constexpr (std::is_floating_point_v<T>)
    if (bits_of(unordered)) return x[find_first(x, n, [](auto v) { return v != v; })];
  lanes[0] = better(better(lanes[0], lanes[1]), better(lanes[2], lanes[3]));
  T last[kLength];
  std::memcpy(last, lanes, sizeof(last));
#pragma GCC unroll 8
  for (int64_t half = kLength / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half; ++k)
      last[k] = Order::ahead(last[k + half], last[k]) ? last[k + half] : last[k];
  return last[0];
}

}  // namespace mxlite::reduce
