// Handles rows of scores between products of bfloat16. Included after attention_rows.h and
// attention_bf16_pack.h.
#pragma once

namespace mxlite::cpu {
namespace {

// A row of one block of scores before scaling.
struct TileRow {
  float* values;
  int64_t padded;  // a multiple of kDepth
  float factor;    // the scores are the values times this factor

  MX_INLINE Floats at(int64_t i) const {
    Floats v;
    std::memcpy(&v, values + i, sizeof v);
    return v * factor;
  }

  // Only the first `valid` keys of the block take part.
  static TileRow make(float* values, int64_t padded, int64_t valid, float scale,
                      const HeadRows* mask, int64_t query, int64_t first) {
    if (!mask && valid == padded) return {values, padded, scale};
    for (int64_t i = 0; i < valid; ++i) values[i] *= scale;
    ScoreRow<float>{values, padded}.mask_scores(valid, mask, query, first);
    return {values, padded, 1};
  }

  float max_with(float least) const {
    Floats best = Floats{} + least;
    for (int64_t i = 0; i < padded; i += kTile) {
      const Floats v = at(i);
      best = v > best ? v : best;
    }
    return fold_max<float>(best);
  }

  // Returns exp(score - center), or 0 for a masked score.
  MX_INLINE Floats exponential(int64_t i, float center) const {
    const Floats v = at(i);
    return v <= static_cast<float>(kMaskedScore) ? Floats{} : exp_of(v - center);
  }

  // Writes exponentials, multiplied by dropout's factors unless `factors` is null, to `to`, which
  // may be `values`. Returns the sum of the exponentials.
  float exponentials(float center, const float* factors, bfloat16* to) const {
    Floats total = {};
    for (int64_t i = 0; i < padded; i += kTile) {
      Floats e = exponential(i, center);
      total += e;
      if (factors) e *= load(factors + i);
      store_rounded(to + i, e);
    }
    return fold_sum<float>(total);
  }

  MX_INLINE static Floats load(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
};

}  // namespace
}  // namespace mxlite::cpu
