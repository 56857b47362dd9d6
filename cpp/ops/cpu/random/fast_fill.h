// Uniform and normal random numbers in blocks.
#pragma once
#include "cpp/ops/kernel.h"

namespace mxlite::random {

// Fills a floating array with numbers between low and high, or with mean + deviation * N(0, 1).
void fill_uniform(RandomState state, double low, double high, const TensorRef& out);
void fill_normal(RandomState state, double mean, double deviation, const TensorRef& out);

// Writes the first two words of kWordBlock consecutive counters, starting at counter `first`.
constexpr int64_t kWordBlock = 512;
void first_words(RandomState state, int64_t first, uint32_t* high, uint32_t* low);

}  // namespace mxlite::random
