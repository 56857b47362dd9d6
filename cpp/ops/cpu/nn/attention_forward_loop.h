// Forward of dot-product attention with the online softmax. A thread keeps the packed keys and
// values of one key head while it processes blocks of that head's queries.
#pragma once

namespace mxlite::cpu {
namespace {

template <class T>
class AttentionForward {
  using Sizes = AttentionSizes<T>;
  static constexpr int64_t kKeys = Sizes::kKeys, kStrip = Sizes::kStrip;

 public:
  AttentionForward(const AttentionCall& call, const AttentionPlan& plan, T* scratch)
      : c_(call), plan_(plan), s_(call, plan.block_rows) {
    AttentionScratch memory(scratch);
    keys_.data = memory.take(s_.k_pad * s_.d);
    values_.data = memory.take(s_.k_pad * s_.dv_pad);
    query_ = memory.take(s_.query_rows());
    scores_ = memory.take(s_.scores());
    sums_ = memory.take(s_.rows * s_.dv_pad);
    max_ = memory.take(s_.row_values());
    total_ = memory.take(s_.row_values());
    loaded_ = memory.take(s_.loaded_rows());
  }

  void run(int64_t item) {
    run_item(
        c_, plan_, item, packed_, [&](int64_t b, int64_t key_head) { pack(b, key_head); },
        [&](int64_t b, int64_t h, int64_t first, int64_t rows) { block(b, h, first, rows); });
  }

 private:
  void pack(int64_t b, int64_t key_head) {
    const int64_t length = c_.lengths[static_cast<size_t>(b)];
    keys_.depth = s_.d;
    keys_.columns = Sizes::padded(length);
    values_.depth = length;
    values_.columns = s_.dv_pad;
    pack_transposed({c_.key, b, key_head}, length, keys_, loaded_);
    pack_plain<T>({c_.value, b, key_head}, length, s_.dv, 1, values_);
  }

  void block(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows query(c_.query, b, h), mask(c_.mask, b, h);
    for (int64_t r = 0; r < rows; ++r)
      load_row<T>(query, first + r, 0, s_.d, static_cast<T>(c_.scale), query_ + r * s_.d);
    std::fill_n(max_, rows, static_cast<T>(kMaskedScore));
    std::fill_n(total_, rows, T(0));
    const int64_t limit = attended_keys(c_, b, first + rows - 1);
    if (limit == 0) std::fill_n(sums_, rows * s_.dv_pad, T(0));
    for (int64_t k = 0; k < limit; k += kKeys) {
      const int64_t count = std::min(kKeys, limit - k);
      const int64_t begin = k / kStrip, end = (k + count + kStrip - 1) / kStrip;
      multiply<T, false>(rows, query_, s_.d, keys_, 0, s_.d, begin, end, false, scores_, kKeys);
      const int64_t padded = std::min(end * kStrip, keys_.columns) - k;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t valid = std::clamp<int64_t>(attended_keys(c_, b, first + r) - k, 0, count);
        row({scores_ + r * kKeys, padded}, r, valid, c_.mask ? &mask : nullptr, b, h, first + r, k);
      }
      multiply<T, false>(rows, scores_, kKeys, values_, k, count, 0, values_.count(), k > 0, sums_,
                         s_.dv_pad);
    }
    finish(b, h, first, rows);
  }

  // Replaces a row's scores by weights, exp(score - maximum) times the factor of dropout, and adds
  // the exponentials to total_. If the row's maximum grows, first rescales total_ and the sums of
  // values to the new maximum.
  void row(const ScoreRow<T>& scores, int64_t r, int64_t valid, const HeadRows* mask, int64_t b,
           int64_t h, int64_t query, int64_t k) {
    scores.mask_scores(valid, mask, query, k);
    const T center = scores.max_with(max_[r]);
    const T sum = scores.exponentials(center);
    if (k > 0 && center != max_[r]) {
      const T factor = std::exp(max_[r] - center);
      total_[r] *= factor;
      ScoreRow<T>{sums_ + r * s_.dv_pad, s_.dv_pad}.scale(factor);
    }
    max_[r] = center;
    total_[r] += sum;
    if (c_.dropout > 0) {
      T factors[kKeys];
      dropout_factors<T>(c_, (b * c_.heads + h) * c_.q_length + query, k, scores.padded, factors);
      for (int64_t i = 0; i < scores.padded; ++i) scores.values[i] *= factors[i];
    }
  }

  void finish(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows output(c_.output, b, h);
    T* const log_sum = static_cast<T*>(c_.log_sum) + (b * c_.heads + h) * c_.q_length + first;
    for (int64_t r = 0; r < rows; ++r) {
      const bool masked = total_[r] == 0;
      log_sum[r] = masked ? std::numeric_limits<T>::infinity() : max_[r] + std::log(total_[r]);
      store_row<T>(output, first + r, s_.dv, masked ? 0 : 1 / total_[r], sums_ + r * s_.dv_pad);
    }
  }

  const AttentionCall& c_;
  const AttentionPlan& plan_;
  const Sizes s_;
  int64_t packed_ = -1;
  Strips<T> keys_, values_;
  T *query_, *scores_, *sums_, *max_, *total_, *loaded_;
};

}  // namespace
}  // namespace mxlite::cpu
