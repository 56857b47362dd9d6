#include "cpp/ops/cuda/nn/attention_graph.h"

#include <memory>
#include <vector>

namespace mxlite::cuda {

namespace fe = cudnn_frontend;

namespace {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Numbers = std::vector<int64_t>;
using Steps = AttentionProblem::Steps;

Numbers strides(const Steps& steps) { return {steps[0], steps[1], steps[2], 1}; }

// The arrays of a problem: (batch, heads, rows, columns).
class Arrays {
 public:
  Arrays(fe::graph::Graph& graph, const AttentionProblem& problem) : graph_(graph), p_(problem) {}

  Tensor query() const { return half(kAttentionQuery, query_dims(), p_.query); }
  Tensor key() const { return half(kAttentionKey, key_dims(), p_.key); }
  Tensor value() const { return half(kAttentionValue, value_dims(), p_.value); }
  Tensor output() const { return half(kAttentionOutput, output_dims(), packed(output_dims())); }
  Tensor output_grad() const { return half(kAttentionOutputGrad, output_dims(), p_.output_grad); }
  Tensor mask() const {
    const auto shape = mask_shape(p_);
    return half(kAttentionMask, {shape.begin(), shape.end()}, mask_steps(p_));
  }
  Tensor log_sum() const {
    const Numbers dims = log_sum_dims();
    return graph_.tensor(
        attributes(kAttentionLogSum, dims, packed(dims)).set_data_type(fe::DataType_t::FLOAT));
  }
  Tensor lengths(AttentionTensor id) const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(id)
                             .set_dim({p_.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }
  Tensor word(AttentionTensor id) const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(id)
                             .set_dim({1, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT64));
  }

  Numbers query_dims() const { return {p_.batch, p_.heads, p_.q_length, p_.d}; }
  Numbers key_dims() const { return {p_.batch, p_.key_heads, p_.k_length, p_.d}; }
  Numbers value_dims() const { return {p_.batch, p_.key_heads, p_.k_length, p_.dv}; }
  Numbers output_dims() const { return {p_.batch, p_.heads, p_.q_length, p_.dv}; }
  Numbers log_sum_dims() const { return {p_.batch, p_.heads, p_.q_length, 1}; }

  // Makes a result of the node an output in contiguous memory.
  static void write(const Tensor& t, AttentionTensor id, const Numbers& dims) {
    t->set_output(true).set_uid(id).set_dim(dims).set_stride(strides(packed(dims)));
  }

 private:
  static Steps packed(const Numbers& dims) {
    return AttentionProblem::contiguous(dims[1], dims[2], dims[3]);
  }
  static fe::graph::Tensor_attributes attributes(AttentionTensor id, const Numbers& dims,
                                                 const Steps& steps) {
    return fe::graph::Tensor_attributes().set_uid(id).set_dim(dims).set_stride(strides(steps));
  }
  Tensor half(AttentionTensor id, const Numbers& dims, const Steps& steps) const {
    return graph_.tensor(attributes(id, dims, steps));
  }

  fe::graph::Graph& graph_;
  const AttentionProblem& p_;
};

// Sets the attributes that forward and backward nodes share.
template <class Attributes>
Attributes settings(const Arrays& arrays, const AttentionProblem& p, Attributes a) {
  a.set_attn_scale(static_cast<float>(p.scale));
  if (p.causal) {
    // For equal lengths both alignments have the same effect, but only TOP_LEFT can be combined
    // with masks.
    a.set_diagonal_alignment(p.q_length == p.k_length ? fe::DiagonalAlignment_t::TOP_LEFT
                                                      : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    a.set_diagonal_band_right_bound(0);
  }
  if (p.use_mask) a.set_bias(arrays.mask());
  if (p.use_length)
    a.set_padding_mask(true)
        .set_seq_len_q(arrays.lengths(kAttentionQueryLengths))
        .set_seq_len_kv(arrays.lengths(kAttentionKeyLengths));
  if (p.dropout > 0)
    a.set_dropout(p.dropout, arrays.word(kAttentionSeed), arrays.word(kAttentionOffset));
  return a;
}

}  // namespace

void make_attention_nodes(fe::graph::Graph& graph, const AttentionProblem& p) {
  graph
      .set_io_data_type(p.dtype == DType::kFloat16 ? fe::DataType_t::HALF
                                                   : fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const Arrays arrays(graph, p);
  if (!p.backward) {
    auto node = settings(arrays, p, fe::graph::SDPA_attributes());
    node.set_generate_stats(true);
    const auto [output, log_sum] =
        graph.sdpa(arrays.query(), arrays.key(), arrays.value(), std::move(node));
    Arrays::write(output, kAttentionOutput, arrays.output_dims());
    Arrays::write(log_sum, kAttentionLogSum, arrays.log_sum_dims());
    log_sum->set_data_type(fe::DataType_t::FLOAT);
    return;
  }
  auto node = settings(arrays, p, fe::graph::SDPA_backward_attributes());
  node.set_deterministic_algorithm(p.deterministic);
  const auto [query_grad, key_grad, value_grad] =
      graph.sdpa_backward(arrays.query(), arrays.key(), arrays.value(), arrays.output(),
                          arrays.output_grad(), arrays.log_sum(), std::move(node));
  Arrays::write(query_grad, kAttentionQueryGrad, arrays.query_dims());
  Arrays::write(key_grad, kAttentionKeyGrad, arrays.key_dims());
  Arrays::write(value_grad, kAttentionValueGrad, arrays.value_dims());
}

}  // namespace mxlite::cuda
