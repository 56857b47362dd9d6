// Sorts several rows at once with a bitonic network. Its comparisons do not depend on the values,
// so that one vector instruction compares elements of all rows.
#pragma once
#include <algorithm>
#include <cstdint>

namespace mxlite::cpu {

// Sorts rows of unsigned words. The words of all rows at one position are adjacent.
template <class Word>
class SortingNetwork {
 public:
  static constexpr int64_t kRows = 32 / sizeof(Word);
  // For longer rows, a radix sort needs fewer steps.
  static constexpr int64_t kLongest = 16384 / sizeof(Word);

  // `length` must be a multiple of 8; words whose bits are all 1 can fill the rows up to it.
  static void sort(Word* words, int64_t length) {
    // Vector instructions compare signed integers of 64 bits only.
    constexpr Word kSign = Word(1) << (sizeof(Word) * 8 - 1);
    for (int64_t i = 0; i < length * kRows; ++i) words[i] ^= kSign;
    sort_signed(reinterpret_cast<Vector*>(words), length);
    for (int64_t i = 0; i < length * kRows; ++i) words[i] ^= kSign;
  }

 private:
  using Signed = std::make_signed_t<Word>;
  typedef Signed Vector __attribute__((vector_size(32), may_alias));  // NOLINT: needs typedef

  static void order(Vector& low, Vector& high) {
    const Vector a = low, b = high;
    low = a < b ? a : b;
    high = a < b ? b : a;
  }

  // Sorts 8 vectors with 19 comparisons, the smallest possible number.
  static void sort_8(Vector* v) {
    Vector a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7];
    order(a, c), order(b, d), order(e, g), order(f, h);
    order(a, e), order(b, f), order(c, g), order(d, h);
    order(a, b), order(c, d), order(e, f), order(g, h);
    order(c, e), order(d, f);
    order(b, e), order(d, g);
    order(b, c), order(d, e), order(f, g);
    v[0] = a, v[1] = b, v[2] = c, v[3] = d, v[4] = e, v[5] = f, v[6] = g, v[7] = h;
  }

  // Runs the last three steps of a merge, which compare vectors at distances 4, 2 and 1.
  static void merge_8(Vector* v) {
    Vector a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7];
    order(a, e), order(b, f), order(c, g), order(d, h);
    order(a, c), order(b, d), order(e, g), order(f, h);
    order(a, b), order(c, d), order(e, f), order(g, h);
    v[0] = a, v[1] = b, v[2] = c, v[3] = d, v[4] = e, v[5] = f, v[6] = g, v[7] = h;
  }

  // Positions between `length` and the next power of two count as largest values, which never move.
  static void sort_signed(Vector* v, int64_t length) {
    for (int64_t i = 0; i < length; i += 8) sort_8(v + i);
    for (int64_t size = 16; size < 2 * length; size *= 2) {
      for (int64_t begin = 0; begin < length; begin += size)
        for (int64_t i = std::max<int64_t>(0, begin + size - length); i < size / 2; ++i)
          order(v[begin + i], v[begin + size - 1 - i]);
      for (int64_t step = size / 4; step >= 8; step /= 2)
        for (int64_t begin = 0; begin + step < length; begin += 2 * step) {
          const int64_t count = std::min(step, length - begin - step);
          for (int64_t i = begin; i < begin + count; ++i) order(v[i], v[i + step]);
        }
      for (int64_t i = 0; i < length; i += 8) merge_8(v + i);
    }
  }
};

}  // namespace mxlite::cpu
