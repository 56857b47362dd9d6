// Plans of fused attention, on the CPU. They read arrays by their steps, as cuDNN's plans do, and
// have the same defects: results are NaN for a mask of -inf and for keys beyond a sample's length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpp/ops/cuda/nn/attention_plan.h"

namespace mxlite::cuda {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
class EmulatedPlan final : public AttentionPlan {
 public:
  explicit EmulatedPlan(const AttentionProblem& problem) : p_(problem) {}
  size_t workspace_bytes() const override { return 0; }

  void run(KernelContext&, AttentionPointers pointers, void*) const override {
    for (const auto& [id, pointer] : pointers)
      MX_CHECK(reinterpret_cast<uintptr_t>(pointer) % 16 == 0, "attention: array ", id,
               " must begin at a multiple of 16 bytes");
    const Arrays a{pointers};
    std::vector<float> key_grad(static_cast<size_t>(p_.batch * p_.key_heads * p_.k_length * p_.d));
    std::vector<float> value_grad(
        static_cast<size_t>(p_.batch * p_.key_heads * p_.k_length * p_.dv));
    for (int64_t row = 0; row < p_.batch * p_.heads * p_.q_length; ++row)
      p_.backward ? backward(a, row, key_grad.data(), value_grad.data()) : forward(a, row);
    if (!p_.backward) return;
    for (int64_t row = 0; row < p_.batch * p_.key_heads * p_.k_length; ++row) {
      const bool used = row % p_.k_length < length(a, row / p_.k_length / p_.key_heads);
      for (int64_t i = row * p_.d; i < (row + 1) * p_.d; ++i)
        a.halves(kAttentionKeyGrad)[i] = used ? key_grad[static_cast<size_t>(i)] : kNaN;
      for (int64_t i = row * p_.dv; i < (row + 1) * p_.dv; ++i)
        a.halves(kAttentionValueGrad)[i] = used ? value_grad[static_cast<size_t>(i)] : kNaN;
    }
  }

 private:
  struct Arrays {
    const AttentionPointers& pointers;
    T* halves(AttentionTensor id) const { return static_cast<T*>(pointers.at(id)); }
    template <class U>
    U* as(AttentionTensor id) const {
      return static_cast<U*>(pointers.at(id));
    }
  };
  struct Row {
    int64_t b, h, key_head, query;
  };
  Row at(int64_t row) const {
    const int64_t h = row / p_.q_length % p_.heads;
    return {row / p_.q_length / p_.heads, h, h / (p_.heads / p_.key_heads), row % p_.q_length};
  }
  static const T* find(const T* data, const AttentionProblem::Steps& steps, int64_t b, int64_t h,
                       int64_t r) {
    return data + b * steps[0] + h * steps[1] + r * steps[2];
  }
  int64_t length(const Arrays& a, int64_t b) const {
    return p_.use_length ? a.template as<int32_t>(kAttentionKeyLengths)[b] : p_.k_length;
  }
  static float dot(const T* a, const T* b, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
    return sum;
  }

  // The scores are those of the keys that the row attends to.
  std::vector<float> scores(const Arrays& a, const Row& r) const {
    int64_t count = length(a, r.b);
    if (p_.causal) count = std::min(count, r.query + 1 + p_.k_length - p_.q_length);
    std::vector<float> result(static_cast<size_t>(count));
    const T* const query = find(a.halves(kAttentionQuery), p_.query, r.b, r.h, r.query);
    for (int64_t k = 0; k < count; ++k) {
      const T* const key = find(a.halves(kAttentionKey), p_.key, r.b, r.key_head, k);
      float score = static_cast<float>(p_.scale) * dot(query, key, p_.d);
      if (p_.use_mask) {
        const auto shape = mask_shape(p_);
        const float added = find(a.halves(kAttentionMask), mask_steps(p_), r.b % shape[0],
                                 r.h % shape[1], r.query % shape[2])[k];
        score += std::isinf(added) ? kNaN : added;
      }
      result[static_cast<size_t>(k)] = score;
    }
    return result;
  }
  float factor(const Arrays& a, int64_t row, size_t k) const {
    if (p_.dropout == 0) return 1;
    const auto seed = static_cast<uint64_t>(a.template as<int64_t>(kAttentionSeed)[0]);
    const auto offset = static_cast<uint64_t>(a.template as<int64_t>(kAttentionOffset)[0]);
    return attention_dropout::factor(philox(seed, offset + static_cast<uint64_t>(row), k)[0],
                                     p_.dropout);
  }

  void forward(const Arrays& a, int64_t row) const {
    const Row r = at(row);
    std::vector<float> weights = scores(a, r);
    const float largest = *std::max_element(weights.begin(), weights.end());
    float sum = 0;
    for (float& w : weights) sum += w = std::exp(w - largest);
    a.template as<float>(kAttentionLogSum)[row] = largest + std::log(sum);
    std::vector<float> output(static_cast<size_t>(p_.dv));
    for (size_t k = 0; k < weights.size(); ++k) {
      const T* const value =
          find(a.halves(kAttentionValue), p_.value, r.b, r.key_head, static_cast<int64_t>(k));
      for (size_t i = 0; i < output.size(); ++i)
        output[i] += weights[k] / sum * factor(a, row, k) * static_cast<float>(value[i]);
    }
    std::copy(output.begin(), output.end(), a.halves(kAttentionOutput) + row * p_.dv);
  }

  void backward(const Arrays& a, int64_t row, float* key_grad, float* value_grad) const {
    const Row r = at(row);
    const std::vector<float> row_scores = scores(a, r);
    const T* const query = find(a.halves(kAttentionQuery), p_.query, r.b, r.h, r.query);
    const T* const grad = find(a.halves(kAttentionOutputGrad), p_.output_grad, r.b, r.h, r.query);
    const float delta = dot(grad, a.halves(kAttentionOutput) + row * p_.dv, p_.dv);
    std::vector<float> query_grad(static_cast<size_t>(p_.d));
    for (size_t k = 0; k < row_scores.size(); ++k) {
      const auto at_key = static_cast<int64_t>(k);
      const T* const key = find(a.halves(kAttentionKey), p_.key, r.b, r.key_head, at_key);
      const T* const value = find(a.halves(kAttentionValue), p_.value, r.b, r.key_head, at_key);
      const float weight = std::exp(row_scores[k] - a.template as<float>(kAttentionLogSum)[row]);
      const float kept = factor(a, row, k);
      const float score_grad = weight * (dot(grad, value, p_.dv) * kept - delta);
      const int64_t key_row = (r.b * p_.key_heads + r.key_head) * p_.k_length + at_key;
      for (int64_t i = 0; i < p_.dv; ++i)
        value_grad[key_row * p_.dv + i] += weight * kept * static_cast<float>(grad[i]);
      for (int64_t i = 0; i < p_.d; ++i) {
        const float scaled = static_cast<float>(p_.scale) * score_grad;
        key_grad[key_row * p_.d + i] += scaled * static_cast<float>(query[i]);
        query_grad[static_cast<size_t>(i)] += scaled * static_cast<float>(key[i]);
      }
    }
    std::copy(query_grad.begin(), query_grad.end(), a.halves(kAttentionQueryGrad) + row * p_.d);
  }

  const AttentionProblem p_;
};

}  // namespace

std::shared_ptr<const AttentionPlan> find_attention_plan(KernelContext&,
                                                         const AttentionProblem& problem) {
  if (problem.dtype == DType::kFloat16) return std::make_shared<EmulatedPlan<float16>>(problem);
  return std::make_shared<EmulatedPlan<bfloat16>>(problem);
}

}  // namespace mxlite::cuda
