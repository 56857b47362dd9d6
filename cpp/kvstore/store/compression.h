// Gradients rounded to few bits, in MXNet's wire format. The rounding error stays in the sender's
// residual and is added to its next gradient.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace mxlite::store {

enum class CompressionType : uint8_t {
  kNone,
  kTwoBit,  // threshold, -threshold or 0
  kOneBit,  // 1 above the threshold, else -1
};

struct Compression {
  CompressionType type = CompressionType::kNone;
  float threshold = 0.5F;
};

// "2bit", "1bit" or "none"; throws a value error for other names, and for a threshold that is not
// above 0 with 2bit or no finite number.
Compression make_compression(const std::string& type, double threshold);

// Returns the values in a 32-bit word: 16, 32, or 1 if uncompressed. An array may be cut into parts
// at multiples of it; the parts' words are then those of the whole.
int64_t values_per_word(CompressionType type);
int64_t compressed_words(CompressionType type, int64_t count);

// words: compressed_words(count) words; the first value is in the highest bits of the first byte.
// residual: same size as the gradient, zeros at first. Unused bits of the last word are 0.
void compress(const Compression& how, std::span<const float> gradient, float* residual,
              uint32_t* words);
void decompress(const Compression& how, const uint32_t* words, std::span<float> values);

}  // namespace mxlite::store
