// Backward over all steps, from last to first. The products with data and the weights' gradients
// are computed afterwards for all steps together (rnn_backward.cc). Included once per instruction
// set, like rnn_tile.h.
#pragma once
#include "cpp/ops/cpu/nn/rnn_loops.h"

namespace mxlite::cpu {
namespace {

template <class T>
struct BackwardLoop {
  static constexpr int64_t kLanes = Lanes<T>::kCount, kWidth = 4 * kLanes;
  const RnnBackward<T>& p;
  const RnnSizes& s = p.sizes;
  const RnnBlocks& b = p.blocks;
  const int64_t depth = s.gates * s.hidden;  // depth of the recurrent product
  T* const packed_hidden = p.packed;         // [out_pad / kWidth][depth][kWidth]
  T* const packed_out = packed_hidden + b.out_pad * depth;

  // Computes the gradient of the state after step `index` without the output's part: the carried
  // gradient of the later step, plus the later step's gate gradients times the weight.
  void state_grad(int64_t index, int64_t block, int64_t q, int64_t q_end, T* grads) const {
    for (int64_t n = q; n < q_end; ++n)
      std::copy_n(p.hidden_grad + n * b.out_pad + block * kWidth, kWidth, grads + (n - q) * kWidth);
    if (index + 1 == s.steps) return;
    const int64_t later = step_at(p, index + 1) * s.batch + q;
    product<T>(4, q_end - q, depth, p.gate_grads + later * p.gate_stride() + p.hidden_side(),
               p.gate_stride(), packed_hidden + block * kWidth * depth, grads, kWidth);
  }

  void step(const Share& share, int64_t index) const {
    const int64_t step = step_at(p, index);
    share.for_each_group([&](int64_t block, int64_t q, int64_t q_end) {
      T grads[kRowGroup * kWidth];
      state_grad(index, block, q, q_end, grads);
      const int64_t first = block * kWidth, valid = valid_columns(s.out(), first, kWidth);
      for (int64_t n = q; n < q_end; ++n) {
        const int64_t row = step * s.batch + n;
        const bool past = is_past_end(p, step, n);
        T* grad = grads + (n - q) * kWidth;
        T* carried = p.hidden_grad + n * b.out_pad + first;
        if (past) {
          std::copy_n(grad, kWidth, carried);
        } else {
          std::fill_n(carried, kWidth, T(0));
          const T* output_grad = p.output_grad + row * p.output_stride + first;
          for (int64_t c = 0; c < valid; ++c) grad[c] += output_grad[c];
        }
        if (!s.projection) {
          cells(step, n, first, past, grad, carried);
        } else if (past) {
          std::fill_n(p.out_grads + row * b.out_pad + first, kWidth, T(0));
        } else {
          std::copy_n(grad, kWidth, p.out_grads + row * b.out_pad + first);
        }
      }
    });
  }

  // Passes gradients from the projection's output to the cells.
  void step_inner(const Share& share, int64_t index) const {
    const int64_t step = step_at(p, index);
    share.for_each_group([&](int64_t block, int64_t q, int64_t q_end) {
      T grads[kRowGroup * kWidth];
      std::fill_n(grads, (q_end - q) * kWidth, T(0));
      product<T>(4, q_end - q, s.projection, p.out_grads + (step * s.batch + q) * b.out_pad,
                 b.out_pad, packed_out + block * kWidth * s.projection, grads, kWidth);
      for (int64_t n = q; n < q_end; ++n)
        cells(step, n, block * kWidth, is_past_end(p, step, n), grads + (n - q) * kWidth, nullptr);
    });
  }

  // Computes the gradients of the gates of kWidth units, starting at unit `first`.
  void cells(int64_t step, int64_t sample, int64_t first, bool past, const T* grad,
             T* carried) const {
    const int64_t row = step * s.batch + sample;
    for (int64_t unit = first; unit < std::min(first + kWidth, s.hidden); unit += b.units) {
      const int64_t block = unit / b.units, valid = valid_columns(s.hidden, unit, b.units);
      const int64_t parts = p.gate_stride() / s.hidden;
      T local[kWidth];
      if (past)
        std::fill_n(local, kWidth, T(0));
      else
        cell(step, row, sample, block, grad + (unit - first),
             carried ? carried + (unit - first) : nullptr, local);
      for (int64_t i = 0; i < parts; ++i)
        std::copy_n(local + i * b.units, valid,
                    p.gate_grads + row * p.gate_stride() + i * s.hidden + unit);
    }
  }

  void cell(int64_t step, int64_t row, int64_t sample, int64_t block, const T* grad, T* carried,
            T* local) const {
    const T* gates = p.gates + (block * s.rows() + row) * b.width;
    const int64_t unit = block * b.units;
    if (s.mode == RnnMode::kLstm) {
      const T* cells = p.cell_slots + sample * b.hidden_pad + unit;
      const int64_t slot = s.batch * b.hidden_pad;
      lstm_backward(gates, cells + slot_before(p, step) * slot, cells + slot_after(p, step) * slot,
                    p.clip, grad, p.cell_grad + sample * b.hidden_pad + unit, local);
    } else if (s.mode == RnnMode::kGru) {
      const T* state =
          p.hidden_slots + (slot_before(p, step) * s.batch + sample) * b.out_pad + unit;
      gru_backward(gates, p.recurrent + (block * s.rows() + row) * kLanes, state, grad, carried,
                   local);
    } else {
      vanilla_backward(s.mode == RnnMode::kRelu, b.units, gates, grad, local);
    }
  }

  void pack(int64_t me, int64_t team) const {
    const auto columns = [&](const T* weight, int64_t count, int64_t padded, int64_t rows, T* to) {
      const int64_t blocks = padded / kWidth;
      for (int64_t i = blocks * me / team; i < blocks * (me + 1) / team; ++i)
        pack_columns(weight, count, i * kWidth, kWidth, rows, to + i * kWidth * rows);
    };
    columns(p.weight_hidden, s.out(), b.out_pad, depth, packed_hidden);
    if (s.projection) columns(p.weight_out, s.hidden, b.hidden_pad, s.projection, packed_out);
  }

  void run() const {
    const int64_t team = p.threads;
    run_shares(p.threads, [&](int64_t me) { pack(me, team); });
    pad_rows(p.last_hidden_grad, s.batch, s.out(), b.out_pad, p.hidden_grad);
    if (p.last_cell_grad) pad_rows(p.last_cell_grad, s.batch, s.hidden, b.hidden_pad, p.cell_grad);
    const auto outer_share = [&](int64_t me) {
      return Share(b.out_pad / kWidth, s.batch, team, me);
    };
    for (int64_t index = s.steps - 1; index >= 0; --index) {
      run_shares(p.threads, [&](int64_t me) { step(outer_share(me), index); });
      if (!s.projection) continue;
      run_shares(p.threads, [&](int64_t me) {
        step_inner(Share(b.hidden_pad / kWidth, s.batch, team, me), index);
      });
    }
    run_shares(p.threads, [&](int64_t me) {
      outer_share(me).for_each_group([&](int64_t block, int64_t q, int64_t q_end) {
        T grads[kRowGroup * kWidth];
        state_grad(-1, block, q, q_end, grads);
        const int64_t valid = valid_columns(s.out(), block * kWidth, kWidth);
        for (int64_t n = q; n < q_end; ++n)
          std::copy_n(grads + (n - q) * kWidth, valid,
                      p.first_hidden_grad + n * s.out() + block * kWidth);
      });
    });
    if (p.last_cell_grad)
      unpad_rows(p.cell_grad, s.batch, s.hidden, b.hidden_pad, p.first_cell_grad);
  }
};

}  // namespace
}  // namespace mxlite::cpu
