// BatchNorm's own loops in bfloat16 give what they give in float32, rounded. Processors without
// AVX-512 have no planned kernels in bfloat16, but the loops exist there too.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cpp/core/half.h"
#include "cpp/ops/cpu/nn/norm/norm.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

// Normal numbers that bfloat16 holds exactly.
std::vector<float> numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = static_cast<float>(static_cast<bfloat16>(normal(generator)));
  return values;
}

std::vector<bfloat16> narrow(const std::vector<float>& values) {
  std::vector<bfloat16> result;
  for (const float v : values) result.push_back(static_cast<bfloat16>(v));
  return result;
}

void expect_rounded(const std::vector<float>& exact, const std::vector<bfloat16>& got,
                    const char* what) {
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_EQ(static_cast<float>(static_cast<bfloat16>(exact[i])), static_cast<float>(got[i]))
        << what << ' ' << i;
}

// Channels-last with channels that end within a register, and blocks of one register.
const NormMemory kMemories[] = {
    {.block = 0, .batch = 3, .pixels = 129, .channels = 19, .threads = 2},
    {.block = 0, .batch = 1, .pixels = 7, .channels = 3, .threads = 2},
    {.block = has_avx512() ? 16 : 8, .batch = 2, .pixels = 300, .channels = 48, .threads = 2},
};
constexpr NormEnd kEnds[] = {NormEnd::kPlain, NormEnd::kRelu};

struct Parameters {
  std::vector<float> gamma, beta, mean, var, inv_std;
  explicit Parameters(int64_t channels)
      : gamma(numbers(channels, 3)),
        beta(numbers(channels, 4)),
        mean(numbers(channels, 5)),
        var(static_cast<size_t>(channels), 1.5f),
        inv_std(var) {}
};

template <class T>
std::vector<T> forward(NormMemory m, NormEnd end, const std::vector<T>& data, Parameters& p) {
  m.bfloat16 = sizeof(T) == 2;
  std::vector<T> output(data.size());
  std::vector<double> scratch(norm_scratch_bytes(m) / sizeof(double) + 1);
  std::vector<float> moving_mean = p.mean, moving_var = p.var;
  norm_forward(m, end,
               {.data = data.data(),
                .added = nullptr,
                .gamma = p.gamma.data(),
                .beta = p.beta.data(),
                .moving_mean = moving_mean.data(),
                .moving_var = moving_var.data(),
                .output = output.data(),
                .mean = p.mean.data(),
                .inv_std = p.inv_std.data(),
                .eps = 1e-3f,
                .momentum = 0.9f,
                .stats = NormForwardArgs::kBatch},
               scratch.data());
  return output;
}

TEST(NormLoops, ForwardInBfloat16RoundsFloat32) {
  for (const NormMemory& m : kMemories)
    for (const NormEnd end : kEnds) {
      const auto data = numbers(m.batch * m.pixels * m.channels, 1);
      Parameters exact(m.channels), rounded(m.channels);
      const auto expected = forward(m, end, data, exact);
      const auto got = forward(m, end, narrow(data), rounded);
      EXPECT_EQ(exact.mean, rounded.mean);
      EXPECT_EQ(exact.inv_std, rounded.inv_std);
      expect_rounded(expected, got, "output");
    }
}

template <class T>
struct Grads {
  std::vector<T> data;
  std::vector<float> gamma, beta;
};

template <class T>
Grads<T> backward(NormMemory m, NormEnd end, const std::vector<T>& grad, const std::vector<T>& data,
                  const Parameters& p) {
  m.bfloat16 = sizeof(T) == 2;
  Grads<T> result{std::vector<T>(data.size()), p.gamma, p.beta};
  std::vector<double> scratch(norm_scratch_bytes(m) / sizeof(double) + 1);
  norm_backward(m, end,
                {.grad = grad.data(),
                 .data = data.data(),
                 .output = nullptr,
                 .gamma = p.gamma.data(),
                 .beta = p.beta.data(),
                 .mean = p.mean.data(),
                 .inv_std = p.inv_std.data(),
                 .data_grad = result.data.data(),
                 .added_grad = nullptr,
                 .gamma_grad = result.gamma.data(),
                 .beta_grad = result.beta.data(),
                 .batch_stats = true},
                scratch.data());
  return result;
}

TEST(NormLoops, BackwardInBfloat16RoundsFloat32) {
  for (const NormMemory& m : kMemories)
    for (const NormEnd end : kEnds) {
      const int64_t count = m.batch * m.pixels * m.channels;
      const auto data = numbers(count, 1), grad = numbers(count, 2);
      const Parameters p(m.channels);
      const auto expected = backward(m, end, grad, data, p);
      const auto got = backward(m, end, narrow(grad), narrow(data), p);
      EXPECT_EQ(expected.gamma, got.gamma);
      EXPECT_EQ(expected.beta, got.beta);
      expect_rounded(expected.data, got.data, "gradient of data");
    }
}

}  // namespace
}  // namespace mxlite::cpu
