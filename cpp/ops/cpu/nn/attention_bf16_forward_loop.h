// Forward of dot-product attention for bfloat16: the online softmax of attention_forward_loop.h
// between products in tiles. Weights are rounded to bfloat16, but their sums are not.
#pragma once

namespace mxlite::cpu {
namespace {

class TileForward {
  using Sizes = AttentionSizes<bfloat16>;
  static constexpr int64_t kKeys = Sizes::kForwardKeys, kStride = Sizes::kForwardStride;

 public:
  TileForward(const AttentionCall& call, const AttentionPlan& plan, float* scratch)
      : c_(call), plan_(plan), s_(call, plan.block_rows) {
    AttentionScratch memory(scratch);
    keys_ = memory.take_halves(s_.k * s_.d);
    values_ = memory.take_halves(s_.k * s_.dv);
    query_ = memory.take_halves(s_.rows * s_.d);
    loaded_ = memory.take_halves(s_.loaded_rows());
    scores_ = memory.take(s_.rows * kStride);
    sums_ = memory.take(s_.rows * s_.dv);
    max_ = memory.take(s_.rows);
    total_ = memory.take(s_.rows);
  }

  void run(int64_t item) {
    run_item(
        c_, plan_, item, packed_, [&](int64_t b, int64_t key_head) { pack(b, key_head); },
        [&](int64_t b, int64_t h, int64_t first, int64_t rows) { block(b, h, first, rows); });
  }

 private:
  void pack(int64_t b, int64_t key_head) {
    const int64_t length = c_.lengths[static_cast<size_t>(b)];
    const HeadRows key(c_.key, b, key_head), value(c_.value, b, key_head);
    pack_as_columns({key, length, c_.d, loaded_, s_.d}, s_.d, keys_);
    pack_as_rows({value, length, c_.dv, loaded_, s_.dv}, s_.dv, values_);
  }

  void block(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows query(c_.query, b, h), mask(c_.mask, b, h);
    const int64_t row_tiles = Sizes::tiles(rows);
    copy_rows({query, first + rows, c_.d, loaded_, s_.d}, first, row_tiles * kTile, s_.d, query_);
    std::fill_n(max_, rows, static_cast<float>(kMaskedScore));
    std::fill_n(total_, rows, 0.0f);
    const int64_t limit = attended_keys(c_, b, first + rows - 1);
    if (limit == 0) std::fill_n(sums_, rows * s_.dv, 0.0f);
    for (int64_t k = 0; k < limit; k += kKeys) {
      const int64_t count = std::min(kKeys, limit - k), padded = Sizes::padded(count);
      multiply_halves(row_tiles, padded / kTile, s_.d / kDepth, {query_, s_.d},
                      {keys_ + k * s_.d, s_.d * kTile, kTileSize}, {scores_, kStride, false});
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t valid = std::clamp<int64_t>(attended_keys(c_, b, first + r) - k, 0, count);
        row(r,
            TileRow::make(scores_ + r * kStride, padded, valid, static_cast<float>(c_.scale),
                          c_.mask ? &mask : nullptr, first + r, k),
            (b * c_.heads + h) * c_.q_length + first + r, k);
      }
      multiply_halves(row_tiles, Sizes::tiles(c_.dv), padded / kDepth,
                      {reinterpret_cast<const bfloat16*>(scores_), 2 * kStride},
                      {values_ + k * s_.dv, kTileSize, s_.dv * kDepth}, {sums_, s_.dv, k > 0});
    }
    finish(b, h, first, rows);
  }

  // Replaces a row's scores by bfloat16 weights, exp(score - maximum) times the factor of dropout,
  // and adds the exponentials to total_. If the row's maximum grows, first rescales total_ and the
  // sums of values to the new maximum.
  void row(int64_t r, const TileRow& scores, int64_t dropout_row, int64_t k) {
    const float center = scores.max_with(max_[r]);
    if (k > 0 && center != max_[r]) {
      const float factor = std::exp(max_[r] - center);
      total_[r] *= factor;
      ScoreRow<float>{sums_ + r * s_.dv, Sizes::tiles(c_.dv) * kTile}.scale(factor);
    }
    max_[r] = center;
    float factors[kKeys];
    const bool drop = c_.dropout > 0;
    if (drop) dropout_factors<float>(c_, dropout_row, k, scores.padded, factors);
    total_[r] += scores.exponentials(center, drop ? factors : nullptr,
                                     reinterpret_cast<bfloat16*>(scores.values));
  }

  void finish(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows output(c_.output, b, h);
    float* const log_sum =
        static_cast<float*>(c_.log_sum) + (b * c_.heads + h) * c_.q_length + first;
    for (int64_t r = 0; r < rows; ++r) {
      const bool masked = total_[r] == 0;
      log_sum[r] = masked ? std::numeric_limits<float>::infinity() : max_[r] + std::log(total_[r]);
      const float share = masked ? 0 : 1 / total_[r];
      for (int64_t n = 0; n < c_.dv; n += kTile)
        store_halves(output, first + r, n, std::min(kTile, c_.dv - n),
                     TileRow::load(sums_ + r * s_.dv + n) * share);
    }
  }

  TileRegisters registers_;
  const AttentionCall& c_;
  const AttentionPlan& plan_;
  const Sizes s_;
  int64_t packed_ = -1;
  bfloat16 *keys_, *values_, *query_, *loaded_;
  float *scores_, *sums_, *max_, *total_;
};

}  // namespace
}  // namespace mxlite::cpu
