// Forward over all steps. Included once per instruction set, like rnn_tile.h.
#pragma once
#include "cpp/ops/cpu/nn/rnn_loops.h"

namespace mxlite::cpu {
namespace {

template <class T>
struct ForwardLoop {
  static constexpr int64_t kLanes = Lanes<T>::kCount;
  const RnnForward<T>& p;
  const RnnSizes& s = p.sizes;
  const RnnBlocks& b = p.blocks;
  const int64_t gate_steps = p.save ? s.steps : p.chunk;
  T* const packed_input = p.packed;
  T* const packed_hidden = packed_input + b.blocks * b.width * p.inputs;
  T* const packed_out = packed_hidden + b.blocks * b.width * s.out();

  int64_t before(int64_t index) const {
    return p.save ? slot_before(p, step_at(p, index)) : index & 1;
  }
  int64_t after(int64_t index) const {
    return p.save ? slot_after(p, step_at(p, index)) : (index + 1) & 1;
  }
  T* hidden_at(int64_t slot) const { return p.hidden_slots + slot * s.batch * b.out_pad; }
  T* cell_at(int64_t slot) const { return p.cell_slots + slot * s.batch * b.hidden_pad; }
  T* gates_at(int64_t block, int64_t gate_step, int64_t sample) const {
    return p.gates + ((block * gate_steps + gate_step) * s.batch + sample) * b.width;
  }

  // Computes gates of the steps [begin, end) from the input: bias + data * weight.
  void project(const Share& share, int64_t begin, int64_t end, int64_t first_gate_step) const {
    share.for_each([&](int64_t block, int64_t q, int64_t q_end) {
      T bias[4 * kLanes], hidden_bias[4 * kLanes];
      gather_gate_block(p, p.bias_input, block, bias);
      gather_gate_block(p, p.bias_hidden, block, hidden_bias);
      // For gru, the cell adds the bias of n inside r * (...).
      const int64_t added = s.mode == RnnMode::kGru ? 2 * kLanes : b.width;
      for (int64_t i = 0; i < added; ++i) bias[i] += hidden_bias[i];
      const auto rows = [&](int64_t step, int64_t sample, int64_t count) {
        T* gates = gates_at(block, step - first_gate_step, sample);
        for (int64_t r = 0; r < count; ++r) std::copy_n(bias, b.width, gates + r * b.width);
        product<T>(b.width / kLanes, count, p.inputs, p.data + (step * s.batch + sample) * p.inputs,
                   p.inputs, packed_input + block * b.width * p.inputs, gates, b.width);
      };
      if (share.chunks == 1) return rows(begin, 0, (end - begin) * s.batch);
      for (int64_t step = begin; step < end; ++step) rows(step, q, q_end - q);
    });
  }

  // Returns where a cell's output of one row is written: the next state, or the input of the
  // projection.
  T* target(int64_t index, int64_t sample) const {
    if (!s.projection) return hidden_at(after(index)) + sample * b.out_pad;
    const int64_t row = (p.save ? step_at(p, index) * s.batch : 0) + sample;
    return p.inner + row * b.hidden_pad;
  }

  void cell_row(int64_t index, int64_t block, int64_t sample, T* gates, const T* recurrent) const {
    const int64_t step = step_at(p, index), first = block * b.units;
    const T* state = hidden_at(before(index)) + sample * b.out_pad + (s.projection ? 0 : first);
    T* next = target(index, sample) + first;
    if (s.mode == RnnMode::kLstm) {
      const T* cell = cell_at(before(index)) + sample * b.hidden_pad + first;
      T* next_cell = cell_at(after(index)) + sample * b.hidden_pad + first;
      lstm_forward(gates, cell, p.clip, next_cell, next);
      if (is_past_end(p, step, sample)) std::copy_n(cell, kLanes, next_cell);
    } else if (s.mode == RnnMode::kGru) {
      gru_forward(gates, recurrent, state, next);
      if (p.save)
        std::copy_n(recurrent + 2 * kLanes, kLanes,
                    p.recurrent + ((block * s.steps + step) * s.batch + sample) * kLanes);
    } else {
      vanilla_forward(s.mode == RnnMode::kRelu, b.units, gates, next);
    }
    if (!s.projection) finish_row(step, sample, first, b.units, state, next);
  }

  // Writes the output of a row, and the state of a row whose sequence has ended.
  void finish_row(int64_t step, int64_t sample, int64_t first, int64_t width, const T* state,
                  T* next) const {
    T* output = p.output + (step * s.batch + sample) * p.output_stride + first;
    const int64_t valid = valid_columns(s.out(), first, width);
    if (is_past_end(p, step, sample)) {
      std::copy_n(state, width, next);
      std::fill_n(output, valid, T(0));
    } else {
      std::copy_n(next, valid, output);
    }
  }

  void step(const Share& share, int64_t index, int64_t gate_step) const {
    const T* state = hidden_at(before(index));
    share.for_each_group([&](int64_t block, int64_t q, int64_t q_end) {
      T* gates = gates_at(block, gate_step, q);
      const T* weight = packed_hidden + block * b.width * s.out();
      if (s.mode != RnnMode::kGru) {
        product<T>(4, q_end - q, s.out(), state + q * b.out_pad, b.out_pad, weight, gates, b.width);
        for (int64_t n = q; n < q_end; ++n)
          cell_row(index, block, n, gates + (n - q) * b.width, nullptr);
        return;
      }
      T bias[3 * kLanes], recurrent[kRowGroup * 3 * kLanes];
      gather_gate_block(p, p.bias_hidden, block, bias);
      std::fill_n(bias, 2 * kLanes, T(0));
      for (int64_t r = 0; r < q_end - q; ++r) std::copy_n(bias, b.width, recurrent + r * b.width);
      product<T>(3, q_end - q, s.out(), state + q * b.out_pad, b.out_pad, weight, recurrent,
                 b.width);
      for (int64_t n = q; n < q_end; ++n)
        cell_row(index, block, n, gates + (n - q) * b.width, recurrent + (n - q) * b.width);
    });
  }

  void project_out(const Share& share, int64_t index) const {
    constexpr int64_t kWidth = 4 * kLanes;
    const int64_t step = step_at(p, index);
    share.for_each_group([&](int64_t block, int64_t q, int64_t q_end) {
      T sums[kRowGroup * kWidth];
      std::fill_n(sums, (q_end - q) * kWidth, T(0));
      product<T>(4, q_end - q, s.hidden, target(index, q), b.hidden_pad,
                 packed_out + block * kWidth * s.hidden, sums, kWidth);
      for (int64_t n = q; n < q_end; ++n) {
        const int64_t at = n * b.out_pad + block * kWidth;
        T* next = hidden_at(after(index)) + at;
        std::copy_n(sums + (n - q) * kWidth, kWidth, next);
        finish_row(step, n, block * kWidth, kWidth, hidden_at(before(index)) + at, next);
      }
    });
  }

  void pack(int64_t me, int64_t team) const {
    for (int64_t i = b.blocks * me / team; i < b.blocks * (me + 1) / team; ++i) {
      pack_gate_block(p, p.weight_input, p.inputs, i, packed_input + i * b.width * p.inputs);
      pack_gate_block(p, p.weight_hidden, s.out(), i, packed_hidden + i * b.width * s.out());
    }
    const int64_t width = 4 * kLanes, blocks = s.projection ? b.out_pad / width : 0;
    for (int64_t i = blocks * me / team; i < blocks * (me + 1) / team; ++i) {
      const T* rows[4 * kLanes];
      for (int64_t c = 0; c < width; ++c)
        rows[c] = i * width + c < s.out() ? p.weight_out + (i * width + c) * s.hidden : nullptr;
      pack_rows(rows, width, s.hidden, packed_out + i * width * s.hidden);
    }
  }

  void start() const {
    pad_rows(p.first_hidden, s.batch, s.out(), b.out_pad, hidden_at(before(0)));
    if (p.first_cell) pad_rows(p.first_cell, s.batch, s.hidden, b.hidden_pad, cell_at(before(0)));
  }
  void finish() const {
    const int64_t slot = before(s.steps);
    unpad_rows(hidden_at(slot), s.batch, s.out(), b.out_pad, p.last_hidden);
    if (p.first_cell) unpad_rows(cell_at(slot), s.batch, s.hidden, b.hidden_pad, p.last_cell);
  }

  void run() const {
    const int64_t team = p.threads;
    run_shares(p.threads, [&](int64_t me) { pack(me, team); });
    start();
    for (int64_t index = 0; index < s.steps; index += p.chunk) {
      const int64_t end = std::min(index + p.chunk, s.steps);
      const int64_t low = std::min(step_at(p, index), step_at(p, end - 1));
      const int64_t first_gate_step = p.save ? 0 : low;
      for (int64_t i = index; i < end; ++i) {
        run_shares(p.threads, [&](int64_t me) {
          const Share share(b.blocks, s.batch, team, me);
          if (i == index) project(share, low, low + end - index, first_gate_step);
          step(share, i, step_at(p, i) - first_gate_step);
        });
        if (!s.projection) continue;
        run_shares(p.threads, [&](int64_t me) {
          project_out(Share(b.out_pad / (4 * kLanes), s.batch, team, me), i);
        });
      }
    }
    finish();
  }
};

}  // namespace
}  // namespace mxlite::cpu
