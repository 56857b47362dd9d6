// Backward of dot-product attention for bfloat16 (attention_backward_loop.h has the formulas).
// Weights p and score gradients s of a block of queries and keys become right factors, so that the
// transposes of dvalue += p^T dy and dkey += s^T query are added up without transposing p or s:
// dvalue^T += dy^T p, dkey^T += query^T s.
#pragma once

namespace mxlite::cpu {
namespace {

class TileBackward {
  using Sizes = AttentionSizes<bfloat16>;
  static constexpr int64_t kKeys = Sizes::kBackwardKeys, kStride = Sizes::kBackwardStride;

 public:
  TileBackward(const AttentionCall& call, const AttentionPlan& plan, float* scratch)
      : c_(call), plan_(plan), s_(call, plan.block_rows) {
    AttentionScratch memory(scratch);
    key_columns_ = memory.take_halves(s_.k * s_.d);
    value_columns_ = memory.take_halves(s_.k * s_.dv);
    keys_ = memory.take_halves(s_.k * s_.d);
    query_ = memory.take_halves(s_.rows * s_.d);
    grad_ = memory.take_halves(s_.rows * s_.dv);
    query_transposed_ = memory.take_halves(s_.rows * s_.d);
    grad_transposed_ = memory.take_halves(s_.rows * s_.dv);
    weights_ = memory.take_halves(s_.rows * kKeys);
    score_grads_ = memory.take_halves(s_.rows * kKeys);
    loaded_ = memory.take_halves(s_.loaded_rows());
    scores_ = memory.take(s_.rows * kStride);
    grads_ = memory.take(s_.rows * kStride);
    query_grad_ = memory.take(s_.rows * s_.d);
    log_sum_ = memory.take(s_.rows);
    delta_ = memory.take(s_.rows);
  }

  // Adds the item's transposed gradients of key and value to `sums` (AttentionSizes::key_grads).
  void run(int64_t item, float* sums) {
    key_grad_ = sums;
    value_grad_ = sums + s_.k * s_.d;
    std::fill_n(sums, s_.key_grads(), 0.0f);
    run_item(
        c_, plan_, item, packed_, [&](int64_t b, int64_t key_head) { pack(b, key_head); },
        [&](int64_t b, int64_t h, int64_t first, int64_t rows) { block(b, h, first, rows); });
  }

  // Adds up the sums of all parts of a key head, adjacent in `sums`, and stores the total.
  static void finish(const AttentionCall& c, const AttentionPlan& plan, int64_t head, float* sums) {
    const Sizes s(c, plan.block_rows);
    for (int64_t part = 1; part < plan.parts; ++part)
      for (int64_t i = 0; i < s.key_grads(); ++i) sums[i] += sums[part * s.key_grads() + i];
    const int64_t b = head / c.key_heads, key_head = head % c.key_heads;
    store_transposed({c.key_grad, b, key_head}, c.k_length, c.d, static_cast<float>(c.scale), sums,
                     s.k);
    store_transposed({c.value_grad, b, key_head}, c.k_length, c.dv, 1, sums + s.k * s.d, s.k);
  }

 private:
  void pack(int64_t b, int64_t key_head) {
    const int64_t length = c_.lengths[static_cast<size_t>(b)];
    const HeadRows key(c_.key, b, key_head), value(c_.value, b, key_head);
    pack_as_columns({key, length, c_.d, loaded_, s_.d}, s_.d, key_columns_);
    pack_as_columns({value, length, c_.dv, loaded_, s_.dv}, s_.dv, value_columns_);
    pack_as_rows({key, length, c_.d, loaded_, s_.d}, s_.d, keys_);
  }

  // Sets rows beyond the block to zero, so that their weights are zero, too.
  void load(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows query(c_.query, b, h), grad(c_.output_grad, b, h), output(c_.output, b, h);
    const int64_t end = first + rows, all = Sizes::padded(rows);
    copy_rows({query, end, c_.d, loaded_, s_.d}, first, all, s_.d, query_);
    copy_rows({grad, end, c_.dv, loaded_, s_.dv}, first, all, s_.dv, grad_);
    transpose_rows(query_, all, s_.d, query_transposed_);
    transpose_rows(grad_, all, s_.dv, grad_transposed_);
    const RowReader outputs{output, end, c_.dv, loaded_, s_.dv};
    const float* const log_sum =
        static_cast<const float*>(c_.log_sum) + (b * c_.heads + h) * c_.q_length + first;
    for (int64_t r = 0; r < all; ++r) {
      const bfloat16* const y = outputs.row(first + r);
      const bfloat16* const dy = grad_ + r * s_.dv;
      float sum = 0;
      if (y) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < c_.dv; ++i)
          sum += static_cast<float>(dy[i]) * static_cast<float>(y[i]);
      }
      delta_[r] = sum;
      log_sum_[r] = y ? log_sum[r] : std::numeric_limits<float>::infinity();
    }
  }

  void block(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows mask(c_.mask, b, h), query_grad(c_.query_grad, b, h);
    load(b, h, first, rows);
    const int64_t all = Sizes::padded(rows), row_tiles = all / kTile, row_steps = all / kDepth;
    const int64_t limit = attended_keys(c_, b, first + rows - 1);
    if (limit == 0) std::fill_n(query_grad_, rows * s_.d, 0.0f);
    for (int64_t k = 0; k < limit; k += kKeys) {
      const int64_t count = std::min(kKeys, limit - k), padded = Sizes::padded(count);
      const int64_t key_tiles = padded / kTile;
      multiply_halves(row_tiles, key_tiles, s_.d / kDepth, {query_, s_.d},
                      {key_columns_ + k * s_.d, s_.d * kTile, kTileSize},
                      {scores_, kStride, false});
      multiply_halves(row_tiles, key_tiles, s_.dv / kDepth, {grad_, s_.dv},
                      {value_columns_ + k * s_.dv, s_.dv * kTile, kTileSize},
                      {grads_, kStride, false});
      for (int64_t r = 0; r < all; r += 2) {
        const auto row = [&](int64_t at) {
          const int64_t valid =
              at < rows ? std::clamp<int64_t>(attended_keys(c_, b, first + at) - k, 0, count)
                        : padded;
          return TileRow::make(scores_ + at * kStride, padded, valid, static_cast<float>(c_.scale),
                               c_.mask && at < rows ? &mask : nullptr, first + at, k);
        };
        const int64_t dropout_row = (b * c_.heads + h) * c_.q_length + first + r;
        if (c_.dropout > 0)
          pair<true>(r, row(r), row(r + 1), row_steps, dropout_row, k);
        else
          pair<false>(r, row(r), row(r + 1), row_steps, dropout_row, k);
      }
      // In the tiles of weights, the steps of 16 keys are adjacent.
      const int64_t column = row_steps * kTileSize;
      multiply_halves(Sizes::tiles(c_.dv), key_tiles, row_steps, {grad_transposed_, all},
                      {weights_, column, kTileSize}, {value_grad_ + k, s_.k, true});
      multiply_halves(Sizes::tiles(c_.d), key_tiles, row_steps, {query_transposed_, all},
                      {score_grads_, column, kTileSize}, {key_grad_ + k, s_.k, true});
      multiply_halves(row_tiles, Sizes::tiles(c_.d), padded / kDepth,
                      {reinterpret_cast<const bfloat16*>(grads_), 2 * kStride},
                      {keys_ + k * s_.d, kTileSize, s_.d * kDepth}, {query_grad_, s_.d, k > 0});
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < c_.d; n += kTile)
        store_halves(query_grad, first + r, n, std::min(kTile, c_.d - n),
                     TileRow::load(query_grad_ + r * s_.d + n) * static_cast<float>(c_.scale));
  }

  // Converts the scores of rows r and r + 1 to weights after dropout, and products dy value^T to
  // gradients of the scores. Stores both as right factors, and the gradients also as rows in the
  // memory of `grads_`.
  template <bool kDropout>
  void pair(int64_t r, const TileRow& even, const TileRow& odd, int64_t row_steps,
            int64_t dropout_row, int64_t k) {
    [[maybe_unused]] float factors[2][kDropout ? kKeys : 1];
    if constexpr (kDropout) {
      dropout_factors<float>(c_, dropout_row, k, even.padded, factors[0]);
      dropout_factors<float>(c_, dropout_row + 1, k, even.padded, factors[1]);
    }
    // Orders pairs of rows as in a right factor.
    alignas(64) static constexpr auto kOrder = [] {
      std::array<int16_t, kDepth> order{};
      for (int16_t i = 0; i < kDepth; ++i)
        order[static_cast<size_t>(i)] = static_cast<int16_t>(i / 2 + i % 2 * kTile);
      return order;
    }();
    const __m512i order = _mm512_load_si512(kOrder.data());
    const auto interleaved = [&](__m512i v) {
      return _mm512_maskz_permutexvar_epi16(kAllHalves, order, v);
    };
    float *const even_grads = grads_ + r * kStride, *const odd_grads = even_grads + kStride;
    const int64_t at = r / kDepth * kTileSize + r % kDepth * kTile;
    for (int64_t i = 0; i < even.padded; i += kTile) {
      Floats p = even.exponential(i, log_sum_[r]), q = odd.exponential(i, log_sum_[r + 1]);
      Floats s = TileRow::load(even_grads + i), t = TileRow::load(odd_grads + i);
      if constexpr (kDropout) {
        const Floats f = TileRow::load(factors[0] + i), g = TileRow::load(factors[1] + i);
        s = p * (s * f - delta_[r]);
        t = q * (t * g - delta_[r + 1]);
        p *= f;
        q *= g;
      } else {
        s = p * (s - delta_[r]);
        t = q * (t - delta_[r + 1]);
      }
      const __m512i score_grads = rounded(s, t);
      const int64_t tile = i / kTile * row_steps * kTileSize + at;
      _mm512_storeu_si512(weights_ + tile, interleaved(rounded(p, q)));
      _mm512_storeu_si512(score_grads_ + tile, interleaved(score_grads));
      constexpr __mmask8 kHalf = 0xf;
      _mm512_mask_storeu_epi64(even_grads + i / 2, kHalf, score_grads);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(odd_grads + i / 2),
                          _mm512_maskz_extracti64x4_epi64(kHalf, score_grads, 1));
    }
  }

  TileRegisters registers_;
  const AttentionCall& c_;
  const AttentionPlan& plan_;
  const Sizes s_;
  int64_t packed_ = -1;
  bfloat16 *key_columns_, *value_columns_, *keys_, *query_, *grad_;
  bfloat16 *query_transposed_, *grad_transposed_, *weights_, *score_grads_, *loaded_;
  float *scores_, *grads_, *query_grad_, *log_sum_, *delta_;
  float *key_grad_ = nullptr, *value_grad_ = nullptr;
};

}  // namespace
}  // namespace mxlite::cpu
