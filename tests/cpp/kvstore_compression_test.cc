// Compares gradient compression with the bits of MXNet's format, which are written out or computed
// for each value.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/store/compression.h"

namespace mxlite::store {
namespace {

std::vector<uint8_t> bytes_of(const std::vector<uint32_t>& words) {
  std::vector<uint8_t> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<uint32_t> compressed(const Compression& how, const std::vector<float>& gradient,
                                 std::vector<float>& residual) {
  std::vector<uint32_t> words(
      static_cast<size_t>(compressed_words(how.type, static_cast<int64_t>(gradient.size()))), ~0U);
  compress(how, gradient, residual.data(), words.data());
  return words;
}

TEST(Compression, TwoBitPutsTheFirstValueInTheHighestBitsOfTheFirstByte) {
  const Compression how = make_compression("2bit", 0.5);
  std::vector<float> residual(18, 0.0F);
  std::vector<float> gradient(18, 0.0F);
  gradient[0] = 0.5F;    // 11
  gradient[1] = -0.75F;  // 10
  gradient[2] = 0.25F;   // 00
  gradient[7] = 2.0F;    // 11, lowest bits of the second byte
  gradient[17] = -0.5F;  // 10, second pair of the second word
  const auto words = compressed(how, gradient, residual);
  EXPECT_EQ(bytes_of(words), (std::vector<uint8_t>{0xe0, 0x03, 0, 0, 0x20, 0, 0, 0}));
}

TEST(Compression, OneBitIsSetAboveTheThreshold) {
  const Compression how = make_compression("1bit", 0.25);
  std::vector<float> residual(10, 0.0F);
  std::vector<float> gradient(10, 0.0F);
  gradient[0] = 0.5F;
  gradient[1] = 0.25F;  // not above
  gradient[9] = 3.0F;
  const auto words = compressed(how, gradient, residual);
  EXPECT_EQ(bytes_of(words), (std::vector<uint8_t>{0x80, 0x40, 0, 0}));
}

TEST(Compression, EqualsTheRuleValueByValueOverManySteps) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> draw(-1.2F, 1.2F);
  for (const char* type : {"2bit", "1bit"}) {
    for (const size_t count : {1U, 15U, 16U, 17U, 33U, 1211U}) {
      const Compression how = make_compression(type, 0.37);
      std::vector<float> residual(count, 0.0F), expected_residual(count, 0.0F);
      for (int step = 0; step < 20; ++step) {
        std::vector<float> gradient(count), values(count);
        for (float& g : gradient) g = draw(random);
        decompress(how, compressed(how, gradient, residual).data(), values);
        for (size_t i = 0; i < count; ++i) {
          const float total = expected_residual[i] + gradient[i];
          float sent = total > how.threshold ? 1.0F : -1.0F;
          if (how.type == CompressionType::kTwoBit)
            sent = total >= how.threshold    ? how.threshold
                   : total <= -how.threshold ? -how.threshold
                                             : 0.0F;
          expected_residual[i] = total - sent;
          ASSERT_EQ(values[i], sent) << type << " " << count << " step " << step << " value " << i;
          ASSERT_EQ(residual[i], expected_residual[i]);
        }
      }
    }
  }
}

TEST(Compression, PartsCutAtWholeWordsHaveTheWordsOfTheWhole) {
  for (const char* type : {"2bit", "1bit"}) {
    const Compression how = make_compression(type, 0.5);
    const auto cut = static_cast<size_t>(3 * values_per_word(how.type));
    std::vector<float> gradient(cut + 21);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(static_cast<float>(i));
    std::vector<float> residual(gradient.size(), 0.1F), parts(gradient.size(), 0.1F);
    const auto whole = compressed(how, gradient, residual);
    std::vector<uint32_t> words(whole.size());
    compress(how, {gradient.data(), cut}, parts.data(), words.data());
    compress(how, {gradient.data() + cut, gradient.size() - cut}, parts.data() + cut,
             words.data() + 3);
    EXPECT_EQ(words, whole);
    EXPECT_EQ(parts, residual);
  }
}

TEST(Compression, RefusesUnknownTypesAndThresholds) {
  EXPECT_THROW(make_compression("3bit", 0.5), Error);
  EXPECT_THROW(make_compression("2bit", 0.0), Error);
  EXPECT_THROW(make_compression("2bit", -1.0), Error);
  EXPECT_THROW(make_compression("1bit", std::nan("")), Error);
  EXPECT_EQ(make_compression("1bit", -0.5).threshold, -0.5F);
  EXPECT_EQ(make_compression("none", 0.5).type, CompressionType::kNone);
}

}  // namespace
}  // namespace mxlite::store
