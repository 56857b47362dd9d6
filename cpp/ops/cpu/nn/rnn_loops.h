// Code shared by the forward and backward loops, which divides work among threads and packs
// weights. Included once per instruction set, like rnn_tile.h.
#pragma once
#include "cpp/ops/cpu/nn/rnn_cells.h"

namespace mxlite::cpu {
namespace {

constexpr int64_t kRowGroup = 32;  // number of rows whose gates stay in the L1 cache

// The pairs (block of columns, range of samples) that one thread computes in every step.
struct Share {
  int64_t blocks, batch, chunks, first, last;
  Share(int64_t block_count, int64_t samples, int64_t threads, int64_t me)
      : blocks(block_count), batch(samples), chunks(1) {
    if (blocks % threads != 0 && blocks < 4 * threads)
      chunks = std::clamp<int64_t>(batch / 4, 1, threads);
    first = blocks * chunks * me / threads;
    last = blocks * chunks * (me + 1) / threads;
  }
  // Calls fn(block, first sample, end) for the pairs.
  void for_each(auto&& fn) const {
    for (int64_t i = first; i < last; ++i) {
      const int64_t c = i % chunks;
      fn(i / chunks, batch * c / chunks, batch * (c + 1) / chunks);
    }
  }
  // Like for_each, but in groups of at most kRowGroup samples.
  void for_each_group(auto&& fn) const {
    for_each([&](int64_t block, int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; q += kRowGroup) fn(block, q, std::min(q + kRowGroup, end));
    });
  }
};

template <class T>
MX_INLINE bool is_past_end(const RnnLayer<T>& p, int64_t step, int64_t sample) {
  return p.lengths && step >= p.lengths[sample];
}

// These functions return the slots of the states before and after a step if all states are kept.
template <class T>
int64_t slot_before(const RnnLayer<T>& p, int64_t step) {
  return p.reverse ? step + 1 : step;
}
template <class T>
int64_t slot_after(const RnnLayer<T>& p, int64_t step) {
  return p.reverse ? step : step + 1;
}
template <class T>
int64_t step_at(const RnnLayer<T>& p, int64_t index) {
  return p.reverse ? p.sizes.steps - 1 - index : index;
}

// Packs the rows of a (gates * hidden, depth) weight that a gate block needs as columns.
template <class T>
void pack_gate_block(const RnnLayer<T>& p, const T* weight, int64_t depth, int64_t block, T* to) {
  const T* rows[4 * Lanes<T>::kCount];
  const RnnBlocks& b = p.blocks;
  for (int64_t i = 0; i < b.width; ++i) {
    const int64_t gate = i / b.units, unit = block * b.units + i % b.units;
    rows[i] = unit < p.sizes.hidden ? weight + (gate * p.sizes.hidden + unit) * depth : nullptr;
  }
  pack_rows(rows, b.width, depth, to);
}

// Copies a gate block's values, one for each gate and unit, in the order of the block's columns.
template <class T>
void gather_gate_block(const RnnLayer<T>& p, const T* values, int64_t block, T* to) {
  const RnnBlocks& b = p.blocks;
  for (int64_t i = 0; i < b.width; ++i) {
    const int64_t gate = i / b.units, unit = block * b.units + i % b.units;
    to[i] = unit < p.sizes.hidden ? values[gate * p.sizes.hidden + unit] : T(0);
  }
}

// Returns how many of the columns [first, first + width) exist.
inline int64_t valid_columns(int64_t columns, int64_t first, int64_t width) {
  return std::clamp<int64_t>(columns - first, 0, width);
}

// Copies (rows, columns) to rows of length `padded` and appends zeros.
template <class T>
void pad_rows(const T* from, int64_t rows, int64_t columns, int64_t padded, T* to) {
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(from + r * columns, columns, to + r * padded);
    std::fill(to + r * padded + columns, to + (r + 1) * padded, T(0));
  }
}
template <class T>
void unpad_rows(const T* from, int64_t rows, int64_t columns, int64_t padded, T* to) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * padded, columns, to + r * columns);
}

}  // namespace
}  // namespace mxlite::cpu
