#include "cpp/kvstore/store/compression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "cpp/base/error.h"

namespace mxlite::store {
namespace {

constexpr uint8_t kPositive = 3, kNegative = 2;

// Computes codes and residuals of n values. The function is separate, so that the compiler
// vectorizes the loop.
void round_two_bit(const float* gradient, float* residual, float threshold, int64_t n,
                   uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const float total = residual[i] + gradient[i];
    const bool positive = total >= threshold, negative = total <= -threshold;
    const float sent = positive ? threshold : negative ? -threshold : 0.0F;
    residual[i] = total - sent;
    codes[i] = positive ? kPositive : negative ? kNegative : uint8_t{0};
  }
}

void round_one_bit(const float* gradient, float* residual, float threshold, int64_t n,
                   uint8_t* codes) {
  for (int64_t i = 0; i < n; ++i) {
    const float total = residual[i] + gradient[i];
    const bool positive = total > threshold;
    residual[i] = total - (positive ? 1.0F : -1.0F);
    codes[i] = positive ? 1 : 0;
  }
}

template <int kBits>
uint32_t packed(const uint8_t* codes) {
  constexpr int kPerByte = 8 / kBits;
  std::array<uint8_t, 4> bytes = {};
  for (size_t b = 0; b < bytes.size(); ++b)
    for (int i = 0; i < kPerByte; ++i)
      bytes[b] = static_cast<uint8_t>(bytes[b] | codes[b * kPerByte + static_cast<size_t>(i)]
                                                     << (8 - kBits * (i + 1)));
  uint32_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

template <int kBits, class Round>
void compress_words(std::span<const float> gradient, float* residual, float threshold,
                    uint32_t* words, Round round) {
  constexpr int64_t kValues = 32 / kBits;
  const auto count = static_cast<int64_t>(gradient.size());
  for (int64_t first = 0; first < count; first += kValues) {
    std::array<uint8_t, kValues> codes = {};
    round(gradient.data() + first, residual + first, threshold, std::min(kValues, count - first),
          codes.data());
    words[first / kValues] = packed<kBits>(codes.data());
  }
}

// Decodes values of kBits bits each.
template <int kBits>
void decompress_words(const uint32_t* words, std::span<float> values,
                      const std::array<float, size_t{1} << kBits>& table) {
  constexpr size_t kPerByte = 8 / kBits;
  const auto* bytes = reinterpret_cast<const uint8_t*>(words);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t shift = 8 - kBits * (i % kPerByte + 1);
    values[i] = table[bytes[i / kPerByte] >> shift & ((1U << kBits) - 1)];
  }
}

}  // namespace

Compression make_compression(const std::string& type, double threshold) {
  Compression how;
  how.threshold = static_cast<float>(threshold);
  if (type == "none") return how;
  MX_CHECK_KIND(type == "2bit" || type == "1bit", ErrorKind::kValue,
                "Unknown type for gradient compression ", type, "; it must be '2bit' or '1bit'");
  how.type = type == "2bit" ? CompressionType::kTwoBit : CompressionType::kOneBit;
  MX_CHECK_KIND(
      std::isfinite(how.threshold) && (how.type == CompressionType::kOneBit || how.threshold > 0),
      ErrorKind::kValue, "set_gradient_compression: threshold must be greater than 0, got ",
      threshold);
  return how;
}

int64_t values_per_word(CompressionType type) {
  constexpr std::array<int64_t, 3> kValues = {1, 16, 32};
  return kValues[static_cast<size_t>(type)];
}

int64_t compressed_words(CompressionType type, int64_t count) {
  const int64_t values = values_per_word(type);
  return (count + values - 1) / values;
}

void compress(const Compression& how, std::span<const float> gradient, float* residual,
              uint32_t* words) {
  switch (how.type) {
    case CompressionType::kTwoBit:
      return compress_words<2>(gradient, residual, how.threshold, words, round_two_bit);
    case CompressionType::kOneBit:
      return compress_words<1>(gradient, residual, how.threshold, words, round_one_bit);
    case CompressionType::kNone:
      std::memcpy(words, gradient.data(), gradient.size_bytes());
  }
}

void decompress(const Compression& how, const uint32_t* words, std::span<float> values) {
  const float t = how.threshold;
  switch (how.type) {
    case CompressionType::kTwoBit:
      return decompress_words<2>(words, values, {0.0F, 0.0F, -t, t});
    case CompressionType::kOneBit:
      return decompress_words<1>(words, values, {-1.0F, 1.0F});
    case CompressionType::kNone:
      std::memcpy(values.data(), words, values.size_bytes());
  }
}

}  // namespace mxlite::store
