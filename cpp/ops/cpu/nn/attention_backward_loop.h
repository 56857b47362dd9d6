// Backward of dot-product attention: recomputes the weights block by block from the saved
// log-sum-exp of each row. With weights p, dropout factors f and w = f (dy value^T):
// dvalue = (p f)^T dy, dscores = p (w - sum(dy * output)), dquery = scale dscores key,
// dkey = scale dscores^T query.
#pragma once

namespace mxlite::cpu {
namespace {

template <class T>
class AttentionBackward {
  using Sizes = AttentionSizes<T>;
  static constexpr int64_t kKeys = Sizes::kKeys, kStrip = Sizes::kStrip;

 public:
  AttentionBackward(const AttentionCall& call, const AttentionPlan& plan, T* scratch)
      : c_(call), plan_(plan), s_(call, plan.block_rows) {
    AttentionScratch memory(scratch);
    key_columns_.data = memory.take(s_.k_pad * s_.d);
    value_columns_.data = memory.take(s_.k_pad * s_.dv);
    keys_.data = memory.take(s_.k_pad * s_.d_pad);
    query_ = memory.take(s_.query_rows());
    grad_ = memory.take(s_.value_rows());
    scores_ = memory.take(s_.scores());
    grads_ = memory.take(s_.scores());
    query_grad_ = memory.take(s_.rows * s_.d_pad);
    query_strips_ = {memory.take(s_.rows * s_.d_pad), s_.rows, s_.d_pad};
    grad_strips_ = {memory.take(s_.rows * s_.dv_pad), s_.rows, s_.dv_pad};
    log_sum_ = memory.take(s_.row_values());
    delta_ = memory.take(s_.row_values());
    loaded_ = memory.take(s_.loaded_rows());
  }

  // Adds the item's gradients of key and value to `sums` (AttentionSizes::key_grads).
  void run(int64_t item, T* sums) {
    key_grad_ = sums;
    value_grad_ = sums + s_.k_pad * s_.d_pad;
    std::fill_n(sums, s_.key_grads(), T(0));
    run_item(
        c_, plan_, item, packed_, [&](int64_t b, int64_t key_head) { pack(b, key_head); },
        [&](int64_t b, int64_t h, int64_t first, int64_t rows) { block(b, h, first, rows); });
  }

  // Adds up the sums of all parts of a key head, adjacent in `sums`, and stores the total.
  static void finish(const AttentionCall& c, const AttentionPlan& plan, int64_t head, T* sums) {
    const Sizes s(c, plan.block_rows);
    for (int64_t part = 1; part < plan.parts; ++part)
      for (int64_t i = 0; i < s.key_grads(); ++i) sums[i] += sums[part * s.key_grads() + i];
    const int64_t b = head / c.key_heads, key_head = head % c.key_heads;
    const HeadRows key_grad(c.key_grad, b, key_head), value_grad(c.value_grad, b, key_head);
    const T* const values = sums + s.k_pad * s.d_pad;
    for (int64_t k = 0; k < c.k_length; ++k) {
      store_row<T>(key_grad, k, s.d, 1, sums + k * s.d_pad);
      store_row<T>(value_grad, k, s.dv, 1, values + k * s.dv_pad);
    }
  }

 private:
  void pack(int64_t b, int64_t key_head) {
    const int64_t length = c_.lengths[static_cast<size_t>(b)];
    const HeadRows key(c_.key, b, key_head), value(c_.value, b, key_head);
    key_columns_.depth = s_.d;
    value_columns_.depth = s_.dv;
    key_columns_.columns = value_columns_.columns = Sizes::padded(length);
    keys_.depth = length;
    keys_.columns = s_.d_pad;
    pack_transposed(key, length, key_columns_, loaded_);
    pack_transposed(value, length, value_columns_, loaded_);
    pack_plain<T>(key, length, s_.d, 1, keys_);
  }

  void load(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows query(c_.query, b, h), grad(c_.output_grad, b, h), output(c_.output, b, h);
    const T* const log_sum = static_cast<const T*>(c_.log_sum) + (b * c_.heads + h) * c_.q_length;
    const T scale = static_cast<T>(c_.scale);
    for (int64_t r = 0; r < rows; ++r) {
      load_row<T>(query, first + r, 0, s_.d, scale, query_ + r * s_.d);
      T* const dy = grad_ + r * s_.dv;
      load_row<T>(grad, first + r, 0, s_.dv, 1, dy);
      load_row<T>(output, first + r, 0, s_.dv, 1, loaded_);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < s_.dv; ++i) sum += dy[i] * loaded_[i];
      delta_[r] = sum;
      log_sum_[r] = log_sum[first + r];
    }
    const auto rows_of = [](const T* data, int64_t stride) {
      return AttentionArray{const_cast<T*>(data), DTypeOf<T>::value, 0, 0, stride, 1};
    };
    pack_plain<T>({rows_of(query_, s_.d), 0, 0}, rows, s_.d, 1, query_strips_);
    pack_plain<T>({rows_of(grad_, s_.dv), 0, 0}, rows, s_.dv, 1, grad_strips_);
  }

  void block(int64_t b, int64_t h, int64_t first, int64_t rows) {
    const HeadRows mask(c_.mask, b, h), query_grad(c_.query_grad, b, h);
    load(b, h, first, rows);
    std::fill_n(query_grad_, rows * s_.d_pad, T(0));
    const int64_t limit = attended_keys(c_, b, first + rows - 1);
    for (int64_t k = 0; k < limit; k += kKeys) {
      const int64_t count = std::min(kKeys, limit - k);
      const int64_t begin = k / kStrip, end = (k + count + kStrip - 1) / kStrip;
      const int64_t padded = std::min(end * kStrip, key_columns_.columns) - k;
      multiply<T, false>(rows, query_, s_.d, key_columns_, 0, s_.d, begin, end, false, scores_,
                         kKeys);
      multiply<T, false>(rows, grad_, s_.dv, value_columns_, 0, s_.dv, begin, end, false, grads_,
                         kKeys);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t valid = std::clamp<int64_t>(attended_keys(c_, b, first + r) - k, 0, count);
        row({scores_ + r * kKeys, padded}, r, valid, c_.mask ? &mask : nullptr, b, h, first + r, k);
      }
      multiply<T, true>(count, scores_, kKeys, grad_strips_, 0, rows, 0, grad_strips_.count(), true,
                        value_grad_ + k * s_.dv_pad, s_.dv_pad);
      multiply<T, true>(count, grads_, kKeys, query_strips_, 0, rows, 0, query_strips_.count(),
                        true, key_grad_ + k * s_.d_pad, s_.d_pad);
      multiply<T, false>(rows, grads_, kKeys, keys_, k, count, 0, keys_.count(), true, query_grad_,
                         s_.d_pad);
    }
    for (int64_t r = 0; r < rows; ++r)
      store_row<T>(query_grad, first + r, s_.d, static_cast<T>(c_.scale),
                   query_grad_ + r * s_.d_pad);
  }

  // Converts scores to weights after dropout, and products dy value^T to gradients of the scores.
  void row(const ScoreRow<T>& scores, int64_t r, int64_t valid, const HeadRows* mask, int64_t b,
           int64_t h, int64_t query, int64_t k) {
    scores.mask_scores(valid, mask, query, k);
    scores.exponentials(log_sum_[r]);
    T* const p = scores.values;
    T* const grads = grads_ + r * kKeys;
    const T delta = delta_[r];
    if (c_.dropout > 0) {
      T factors[kKeys];
      dropout_factors<T>(c_, (b * c_.heads + h) * c_.q_length + query, k, scores.padded, factors);
      for (int64_t i = 0; i < scores.padded; ++i) {
        grads[i] = p[i] * (grads[i] * factors[i] - delta);
        p[i] *= factors[i];
      }
    } else {
      for (int64_t i = 0; i < scores.padded; ++i) grads[i] = p[i] * (grads[i] - delta);
    }
  }

  const AttentionCall& c_;
  const AttentionPlan& plan_;
  const Sizes s_;
  int64_t packed_ = -1;
  Strips<T> key_columns_, value_columns_, keys_, query_strips_, grad_strips_;
  T *query_, *grad_, *scores_, *grads_, *query_grad_, *log_sum_, *delta_, *loaded_;
  T *key_grad_ = nullptr, *value_grad_ = nullptr;
};

}  // namespace
}  // namespace mxlite::cpu
