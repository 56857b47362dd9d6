// Rounds gradients to few bits in MXNet's wire format. The sender keeps the rounding error in a
// residual and adds it to its next gradient.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace mxlite::store {

enum class CompressionType : uint8_t {
  kNone,
  kTwoBit,  // threshold, -threshold or 0
  kOneBit,  // 1 above the threshold, otherwise -1
};

struct Compression {
  CompressionType type = CompressionType::kNone;
  float threshold = 0.5F;
};

// `type` is "2bit", "1bit" or "none". The threshold must be finite and, for 2bit, above 0. Throws a
// value error for other values.
Compression make_compression(const std::string& type, double threshold);

// Returns the number of values in a 32-bit word: 16, 32, or 1 without compression. If an array is
// split at multiples of this number, the concatenated words of the parts equal the words of the
// whole array.
int64_t values_per_word(CompressionType type);
int64_t compressed_words(CompressionType type, int64_t count);

// `words` has compressed_words(count) elements. The first value is in the highest bits of the first
// byte, and unused bits of the last word are 0. `residual` has the size of the gradient and must
// initially be zero.
void compress(const Compression& how, std::span<const float> gradient, float* residual,
              uint32_t* words);
void decompress(const Compression& how, const uint32_t* words, std::span<float> values);

}  // namespace mxlite::store
