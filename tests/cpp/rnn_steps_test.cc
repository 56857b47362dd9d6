// Compares the step kernels of both instruction sets. The op table compares the kernel that this
// processor takes with NumPy.
#include "cpp/ops/cpu/nn/rnn_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

namespace mxlite::cpu {
namespace {

struct Case {
  const char* mode;
  int64_t hidden, batch;
  bool bidirectional;
};

class RnnSteps : public testing::TestWithParam<Case> {};

template <class T>
struct Buffers {
  std::vector<std::unique_ptr<T, decltype(&std::free)>> owned;
  T* make(int64_t count, uint32_t seed = 0) {
    const size_t bytes = (static_cast<size_t>(count) * sizeof(T) + 127) / 64 * 64;
    T* memory = static_cast<T*>(std::aligned_alloc(64, bytes));
    owned.emplace_back(memory, std::free);
    for (int64_t i = 0; i < count; ++i)
      memory[i] = seed ? T(std::sin(static_cast<double>(i) * 1.7 + seed) / 2) : T(0);
    return memory;
  }
};

// Runs one layer forward and backward, and returns outputs and gradients.
template <class T, class Forward, class Backward>
std::vector<T> run(const Case& c, Forward&& forward, Backward&& backward) {
  constexpr int64_t kSteps = 3, kInputs = 5;
  RnnParams p;
  p.state_size = c.hidden;
  p.num_layers = 1;
  p.mode = AttrTraits<RnnMode>::from(std::string(c.mode));
  const RnnSizes s(p, Shape{kSteps, c.batch, kInputs});
  const RnnBlocks b(s, sizeof(T));
  const RnnReserve r(s, sizeof(T));
  Buffers<T> buffers;
  T* reserve = buffers.make(static_cast<int64_t>(r.bytes / sizeof(T)));
  const auto kept = [&](size_t at) { return reserve + at / sizeof(T); };
  const int64_t gates = s.gates * s.hidden, states = c.batch * c.hidden;
  const bool lstm = p.is_lstm();

  RnnForward<T> f{{s, b, {}}};
  f.inputs = kInputs;
  f.reverse = c.bidirectional;
  f.threads = 2;
  f.weight_hidden = buffers.make(gates * c.hidden, 1);
  f.data = buffers.make(kSteps * c.batch * kInputs, 2);
  f.weight_input = buffers.make(gates * kInputs, 3);
  f.bias_input = buffers.make(gates, 4);
  f.bias_hidden = buffers.make(gates, 5);
  f.first_hidden = buffers.make(states, 6);
  if (lstm) f.first_cell = buffers.make(states, 7);
  f.chunk = 2;
  f.save = true;
  f.gates = kept(r.first.gates);
  f.hidden_slots = kept(r.first.hidden);
  f.cell_slots = kept(r.first.cell);
  f.recurrent = kept(r.first.recurrent);
  f.packed = buffers.make(rnn_forward_packed(s, b, kInputs));
  f.output = buffers.make(kSteps * states);
  f.output_stride = c.hidden;
  f.last_hidden = buffers.make(states);
  f.last_cell = buffers.make(states);
  forward(f);

  RnnBackward<T> g{{s, b, {}}};
  g.inputs = kInputs;
  g.reverse = c.bidirectional;
  g.threads = 2;
  g.weight_hidden = f.weight_hidden;
  g.gates = f.gates;
  g.hidden_slots = f.hidden_slots;
  g.cell_slots = f.cell_slots;
  g.recurrent = f.recurrent;
  g.output_grad = buffers.make(kSteps * states, 8);
  g.output_stride = c.hidden;
  g.last_hidden_grad = buffers.make(states, 9);
  if (lstm) g.last_cell_grad = buffers.make(states, 10);
  g.first_hidden_grad = buffers.make(states);
  g.first_cell_grad = buffers.make(states);
  g.gate_grads = buffers.make(s.rows() * g.gate_stride());
  g.hidden_grad = buffers.make(c.batch * b.out_pad);
  g.cell_grad = buffers.make(c.batch * b.hidden_pad);
  g.packed = buffers.make(rnn_backward_packed(s, b));
  backward(g);

  std::vector<T> found;
  found.insert(found.end(), f.output, f.output + kSteps * states);
  found.insert(found.end(), f.last_hidden, f.last_hidden + states);
  found.insert(found.end(), f.last_cell, f.last_cell + states);
  found.insert(found.end(), g.gate_grads, g.gate_grads + s.rows() * g.gate_stride());
  found.insert(found.end(), g.first_hidden_grad, g.first_hidden_grad + states);
  found.insert(found.end(), g.first_cell_grad, g.first_cell_grad + states);
  return found;
}

template <class T>
void compare(const Case& c, double tolerance) {
  const auto wide = run<T>(
      c, [](const auto& l) { avx512::rnn_forward(l); },
      [](const auto& l) { avx512::rnn_backward(l); });
  const auto narrow = run<T>(
      c, [](const auto& l) { avx2::rnn_forward(l); }, [](const auto& l) { avx2::rnn_backward(l); });
  ASSERT_EQ(wide.size(), narrow.size());
  double norm = 0;
  for (size_t i = 0; i < wide.size(); ++i) {
    ASSERT_NEAR(wide[i], narrow[i], tolerance) << i;
    norm += std::abs(static_cast<double>(wide[i]));
  }
  EXPECT_GT(norm, 1) << "nothing was computed";
}

TEST_P(RnnSteps, AreTheSameInBothInstructionSets) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
    GTEST_SKIP() << "this processor has no AVX-512";
  compare<float>(GetParam(), 1e-5);
  compare<double>(GetParam(), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Modes, RnnSteps,
                         testing::Values(Case{"lstm", 7, 3, false}, Case{"lstm", 130, 41, true},
                                         Case{"gru", 7, 3, true}, Case{"gru", 50, 35, false},
                                         Case{"rnn_tanh", 7, 2, false},
                                         Case{"rnn_relu", 70, 5, true}));

}  // namespace
}  // namespace mxlite::cpu
