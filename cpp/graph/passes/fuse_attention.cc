// Finds attention that is written as product, mask, softmax, dropout and product. Replaces it by
// one operator that does not store the scores. Recognizes two forms of gluon-nlp:
// DotProductSelfAttentionCell on interleaved projections, and DotProductAttentionCell on
// batch_dot.
#include <cmath>
#include <optional>

#include "cpp/graph/passes/passes.h"
#include "cpp/graph/passes/value_facts.h"
#include "cpp/graph/rewrite.h"
#include "cpp/graph/run/program.h"
#include "cpp/ops/cpu/processor.h"
#include "cpp/ops/matrix/dot.h"
#include "cpp/ops/nn/attention.h"
#include "cpp/ops/nn/dropout.h"
#include "cpp/ops/nn/interleaved_attention.h"
#include "cpp/ops/nn/softmax.h"

namespace mxlite::graph {
namespace {

// The fused kernel computes 16-bit floats in float32, except for bfloat16 on processors with AMX.
// With fewer keys than this number, separate products of 16-bit floats are faster.
constexpr int64_t kKeysOfHalves = 2048;
// A score of at most this value has a weight of 0 in every row that also has higher scores.
constexpr double kHiddenScore = -1e9;

// The steps between the scores and the product with the values. A step that does not exist has an
// invalid id.
struct Weights {
  ValueId scores;
  ValueId hidden_by;  // mask of 0 and 1 that hides scores where it is 0
  ValueId added;      // mask that is added to the scores
  ValueId length;     // the input `length` of softmax
  float dropout = 0;
};

struct Sizes {
  int64_t batch, heads, q_length, k_length;
};

bool value_exists(ValueId v) { return v.node >= 0; }

class AttentionFuser {
 public:
  explicit AttentionFuser(const Graph& graph)
      : graph_(graph), rewrite_(graph), out_(rewrite_.graph()), uses_(count_uses(graph)) {}

  Graph run(const PassContext& context) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (const std::optional<ValueId> made = fuse(id))
        rewrite_.replace({id, 0}, *made);
      else
        rewrite_.keep(id);
    }
    return remove_dead(rewrite_.finish(), context);  // removes the replaced steps, which are unused
                                                     // now
  }

 private:
  bool is_op(ValueId v, std::string_view name) const {
    const Node& n = graph_.node(v);
    return n.kind == NodeKind::kOp && v.output == 0 && n.op()->name == name && n.post_ops.empty();
  }
  bool is_product(ValueId v) const { return is_op(v, "broadcast_mul") || is_op(v, "elemwise_mul"); }
  const Shape& shape(ValueId v) const { return graph_.spec(v).shape; }
  int uses(ValueId v) const {
    return uses_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }

  // Returns the value before reshapes and copies. Their intermediate values must have no other
  // readers.
  ValueId before_reshapes(ValueId v) const {
    while (uses(v) == 1) {
      const Node& n = graph_.node(v);
      if (n.kind != NodeKind::kOp || !n.post_ops.empty() ||
          !(n.op()->alias || n.op()->name == "_copy"))
        break;
      v = n.inputs[0];
    }
    return v;
  }

  // Matches the steps before `attention`. Each step must have one reader, the next step.
  std::optional<Weights> find_weights(ValueId attention) const {
    Weights found;
    ValueId v = before_reshapes(attention);
    if (is_op(v, "Dropout")) {
      const Node& n = graph_.node(v);
      const auto& p = params_of<DropoutParams>(n);
      if (uses(v) != 1 || uses({v.node, 1}) != 0 || p.axes.ndim() > 0) return std::nullopt;
      if (p.mode == DropoutMode::kAlways && !graph_.training) return std::nullopt;
      // An inactive Dropout draws no random numbers, so the fused operator must not draw any.
      found.dropout = p.is_active(graph_.training) ? p.p : 0;
      v = before_reshapes(n.inputs[0]);
    }
    if (is_product(v)) {
      if (uses(v) != 1) return std::nullopt;
      const std::vector<ValueId>& sides = graph_.node(v).inputs;
      const size_t side = is_op(sides[0], "softmax") ? 0 : 1;
      found.hidden_by = sides[1 - side];
      if (shape(found.hidden_by) != shape(v)) return std::nullopt;
      v = sides[side];
    }
    if (!is_plain_softmax(v)) return std::nullopt;
    const Node& softmax = graph_.node(v);
    if (softmax.inputs.size() > 1) found.length = softmax.inputs[1];
    found.scores = softmax.inputs[0];
    if (value_exists(found.hidden_by) ? !find_hidden(found) : !find_added(found))
      return std::nullopt;
    const Shape &from = shape(found.scores), &to = shape(attention);
    const bool matrices_stay = shape(v) == from && from.ndim() >= 3 && to.ndim() >= 3 &&
                               from.back() == to.back() &&
                               from[from.ndim() - 2] == to[to.ndim() - 2];
    return matrices_stay ? std::optional(found) : std::nullopt;
  }

  bool is_plain_softmax(ValueId v) const {
    if (!is_op(v, "softmax") || uses(v) != 1) return false;
    const auto& p = params_of<SoftmaxParams>(graph_.node(v));
    const bool last_axis = p.axis == -1 || p.axis == shape(v).ndim() - 1;
    return last_axis && p.temperature.value_or(1) == 1 &&
           p.dtype.value_or(graph_.spec(v).dtype) == graph_.spec(v).dtype &&
           graph_.spec(graph_.node(v).inputs[0]).dtype == graph_.spec(v).dtype;
  }

  // Matches where(mask, scores, hidden) before a softmax whose result is multiplied by the mask. In
  // this form, a row whose scores are all hidden gives zeros.
  bool find_hidden(Weights& found) const {
    const ValueId v = found.scores;
    if (!is_op(v, "where") || uses(v) != 1 || value_exists(found.length)) return false;
    const std::vector<ValueId>& inputs = graph_.node(v).inputs;
    const Bounds hidden = bounds_of(graph_, inputs[2]);
    if (inputs[0] != found.hidden_by || !is_binary(graph_, inputs[0]) ||
        shape(inputs[1]) != shape(v) || !hidden.is_constant() || hidden.high > kHiddenScore)
      return false;
    found.scores = inputs[1];
    return uses(found.scores) == 1 + shape_readers(inputs[2], found.scores);
  }

  // `v` is a number times ones_like(scores). Returns how many readers of `scores` disappear with
  // `v`.
  int shape_readers(ValueId v, ValueId scores) const {
    for (; uses(v) == 1; v = graph_.node(v).inputs[0]) {
      if (is_op(v, "ones_like") || is_op(v, "zeros_like"))
        return graph_.node(v).inputs[0] == scores ? 1 : 0;
      if (!is_op(v, "_mul_scalar") && !is_op(v, "_plus_scalar")) break;
    }
    return 0;
  }

  // Matches an optional addition before the softmax. The added value must not be so low that the
  // fused operator would treat scores as hidden. Otherwise the results of rows with only such
  // scores would differ.
  bool find_added(Weights& found) const {
    const ValueId v = found.scores;
    if (uses(v) != 1) return false;
    if (!is_addition(graph_.node(v)) || v.output != 0) return true;
    const std::vector<ValueId>& sides = graph_.node(v).inputs;
    for (size_t side = 0; side < 2; ++side) {
      const Bounds added = bounds_of(graph_, sides[1 - side]);
      if (uses(sides[side]) != 1 || shape(sides[side]) != shape(v) || !std::isfinite(added.low) ||
          added.low <= 0.5 * kMaskedScore ||
          graph_.spec(sides[1 - side]).dtype != graph_.spec(v).dtype)
        continue;
      found.added = sides[1 - side];
      found.scores = sides[side];
      return true;
    }
    return false;
  }

  // `query` is an input of the product that computes the scores. The fused operator does not
  // support heads of size 0.
  bool is_worthwhile(ValueId scores, ValueId query) const {
    const TensorSpec& spec = graph_.spec(scores);
    return is_floating(spec.dtype) && spec.shape.size() > 0 && shape(query).size() > 0 &&
           (!is_half(spec.dtype) || spec.shape.back() >= kKeysOfHalves ||
            (spec.dtype == DType::kBFloat16 && cpu::has_amx_bf16()));
  }

  std::optional<ValueId> fuse(int32_t id) {
    const ValueId v{id, 0};
    if (is_op(v, "_contrib_interleaved_matmul_selfatt_valatt"))
      return fuse_interleaved(graph_.nodes[static_cast<size_t>(id)], true);
    if (is_op(v, "_contrib_interleaved_matmul_encdec_valatt"))
      return fuse_interleaved(graph_.nodes[static_cast<size_t>(id)], false);
    if (is_op(v, "batch_dot")) return fuse_batch_dot(graph_.nodes[static_cast<size_t>(id)]);
    return std::nullopt;
  }

  std::optional<ValueId> fuse_interleaved(const Node& n, bool self) {
    const std::optional<Weights> w = find_weights(n.inputs[1]);
    if (!w || !is_op(w->scores, self ? "_contrib_interleaved_matmul_selfatt_qk"
                                     : "_contrib_interleaved_matmul_encdec_qk"))
      return std::nullopt;
    const Node& first = graph_.node(w->scores);
    const int64_t heads = params_of<InterleavedParams>(n).heads;
    if (first.inputs.back() != n.inputs[0] || params_of<InterleavedParams>(first).heads != heads ||
        !is_worthwhile(w->scores, first.inputs[0]))
      return std::nullopt;
    const Shape& scores = shape(w->scores);
    auto p = std::make_shared<InterleavedAttentionParams>();
    p->heads = heads;
    std::vector<ValueId> inputs = rewrite_.map(first.inputs);
    if (!add_options(*w, {scores[0] / heads, heads, scores[1], scores[2]}, *p, inputs))
      return std::nullopt;
    return out_.add_op(ops().get(self ? "_interleaved_selfatt" : "_interleaved_encdec"),
                       std::move(p), std::move(inputs), n.name());
  }

  std::optional<ValueId> fuse_batch_dot(const Node& n) {
    const auto& second = params_of<DotParams>(n);
    if (second.transpose_a || second.transpose_b || second.forward_stype) return std::nullopt;
    const std::optional<Weights> w = find_weights(n.inputs[0]);
    if (!w || !is_op(w->scores, "batch_dot")) return std::nullopt;
    const Node& product = graph_.node(w->scores);
    const auto& p = params_of<DotParams>(product);
    if (p.transpose_a || !p.transpose_b || p.forward_stype ||
        !is_worthwhile(w->scores, product.inputs[0]))
      return std::nullopt;

    ValueId query = product.inputs[0];
    const bool divided = is_op(query, "_contrib_div_sqrt_dim");
    if (divided) query = graph_.node(query).inputs[0];
    const Sizes s = sizes_of(*w);
    auto attention = std::make_shared<AttentionParams>();
    if (!divided) attention->scale = 1;
    std::vector<ValueId> inputs = {by_heads(query, s), by_heads(product.inputs[1], s),
                                   by_heads(n.inputs[1], s)};
    if (!add_options(*w, s, *attention, inputs)) return std::nullopt;
    const ValueId made = out_.add_op(ops().get("_contrib_dot_product_attention"),
                                     std::move(attention), std::move(inputs), n.name());
    return reshape(made, n.outputs[0].shape);
  }

  // Splits batch * heads into two axes if the mask was made from an array with both axes.
  Sizes sizes_of(const Weights& w) const {
    const Shape& scores = shape(w.scores);
    const int n = scores.ndim();
    Sizes s{scores.product(0, n - 2), 1, scores[n - 2], scores[n - 1]};
    const ValueId mask = value_exists(w.hidden_by) ? w.hidden_by : w.added;
    if (!value_exists(mask)) return s;
    const Shape& split = shape(before_joining_heads(mask));
    if (split.ndim() == 4 && split[0] * split[1] == s.batch) {
      s.batch = split[0];
      s.heads = split[1];
    }
    return s;
  }

  // Returns the value before a reshape that joins batch and heads into one axis, or the mask
  // itself.
  ValueId before_joining_heads(ValueId mask) const {
    const Node& n = graph_.node(mask);
    if (n.kind != NodeKind::kOp || !n.op()->alias || shape(mask).ndim() != 3) return mask;
    const Shape &from = shape(n.inputs[0]), &to = shape(mask);
    const bool joins =
        from.ndim() == 4 && from[0] * from[1] == to[0] && from[2] == to[1] && from[3] == to[2];
    return joins ? n.inputs[0] : mask;
  }

  // Adds dropout, mask and length. Returns false if the operator does not support them.
  bool add_options(const Weights& w, const Sizes& s, AttentionParams& p,
                   std::vector<ValueId>& inputs) {
    p.dropout = w.dropout;
    const ValueId mask = value_exists(w.hidden_by) ? w.hidden_by : w.added;
    p.use_mask = value_exists(mask);
    p.use_length = value_exists(w.length);
    std::optional<ValueId> length;
    if (p.use_length) {
      length = uniform_blocks(graph_, w.length, s.batch);
      if (!length) return false;
    }
    if (p.use_mask) {
      ValueId view;
      if (!view_of_mask(mask, s, view)) return false;
      if (value_exists(w.hidden_by)) {
        // The logarithm is 0 for a visible score and -infinity for a hidden score.
        const DType dtype = graph_.spec(w.scores).dtype;
        if (out_.spec(view).dtype != dtype) view = out_.add_op("Cast", {view}, {{"dtype", dtype}});
        view = out_.add_op("BlockGrad", {out_.add_op("log", {view})});
      }
      inputs.push_back(view);
    }
    if (length) inputs.push_back(first_of_blocks(rewrite_.map(*length), s.batch));
    return true;
  }

  // Sets `view` to the smallest array from which the mask is broadcast. Its shape is (batch or 1,
  // heads or 1, ...).
  bool view_of_mask(ValueId mask, const Sizes& s, ValueId& view) {
    const Spread from = find_spread(graph_, before_joining_heads(mask));
    Shape four = from.shape;
    while (four.ndim() < 3) four.insert(0, 1);
    if (four.ndim() == 3) {
      const bool each = four[0] == s.batch * s.heads && four[0] != 1;
      if (!each && four[0] != 1) return false;
      four.insert(1, each ? s.heads : 1);
      if (each) four[0] = s.batch;
    }
    const Shape whole{s.batch, s.heads, s.q_length, s.k_length};
    bool fits = four.ndim() == 4;
    for (int i = 0; fits && i < 4; ++i) fits = four[i] == 1 || four[i] == whole[i];
    if (fits) view = reshape(rewrite_.map(from.value), four);
    return fits;
  }

  ValueId first_of_blocks(ValueId v, int64_t blocks) {
    const int64_t each = out_.spec(v).shape.size() / blocks;
    if (each > 1)
      v = out_.add_op("slice_axis", {reshape(v, Shape{blocks, each})},
                      {{"axis", int64_t{1}}, {"begin", int64_t{0}}, {"end", int64_t{1}}});
    return reshape(v, Shape{blocks});
  }

  // Reshapes (..., length, d) to (batch, heads, length, d).
  ValueId by_heads(ValueId v, const Sizes& s) {
    const Shape& from = shape(v);
    const int n = from.ndim();
    return reshape(rewrite_.map(v), Shape{s.batch, s.heads, from[n - 2], from[n - 1]});
  }

  ValueId reshape(ValueId v, const Shape& to) {
    return out_.spec(v).shape == to ? v : out_.add_op("_reshape_to", {v}, {{"shape", to}});
  }

  const Graph& graph_;
  Rewrite rewrite_;
  Graph& out_;
  std::vector<std::vector<int>> uses_;
};

}  // namespace

Graph fuse_attention(const Graph& graph, const PassContext& context) {
  // Leaves graphs for GPUs unchanged, because the fused operator for GPUs stores the scores, too.
  if (context.device.type != DeviceType::kCPU || is_small(graph, context.device.type)) return graph;
  return AttentionFuser(graph).run(context);
}

}  // namespace mxlite::graph
