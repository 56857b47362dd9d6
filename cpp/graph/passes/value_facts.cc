#include "cpp/graph/passes/value_facts.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "cpp/graph/rewrite.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/ops/tensor/creation.h"

namespace mxlite::graph {
namespace {

using Names = std::unordered_set<std::string_view>;

constexpr int kDepth = 12;  // number of operators that a query follows, to limit its time

bool is_in(const Names& names, const Node& n) { return names.contains(n.op()->name); }

bool gives_binary(const Node& n) {
  static const Names names = {"broadcast_equal",
                              "broadcast_not_equal",
                              "broadcast_greater",
                              "broadcast_lesser",
                              "broadcast_greater_equal",
                              "broadcast_lesser_equal",
                              "broadcast_logical_and",
                              "broadcast_logical_or",
                              "broadcast_logical_xor",
                              "_equal_scalar",
                              "_not_equal_scalar",
                              "_greater_scalar",
                              "_lesser_scalar",
                              "_greater_equal_scalar",
                              "_lesser_equal_scalar",
                              "_logical_and_scalar",
                              "_logical_or_scalar",
                              "_logical_xor_scalar",
                              "logical_not"};
  return is_in(names, n);
}

bool broadcasts(const Node& n) {
  static const Names names = {"broadcast_axis", "broadcast_to", "broadcast_like"};
  return is_in(names, n);
}

bool casts(const Node& n) { return n.op()->name == "Cast" || n.op()->name == "amp_cast"; }

// Returns whether every element of the output is an element of input 0.
bool takes_elements(const Node& n) {
  static const Names names = {"_copy", "BlockGrad",  "transpose",  "SwapAxis", "slice",
                              "tile",  "slice_axis", "slice_like", "repeat"};
  return n.op()->alias || broadcasts(n) || is_in(names, n);
}

bool multiplies(const Node& n) {
  return n.op()->name == "broadcast_mul" || n.op()->name == "elemwise_mul";
}

Bounds finite(double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return {};
  return {low, high};
}

Bounds of_scalar(const Node& n, const Bounds& data) {
  const double s = params_of<ScalarParams>(n).scalar;
  const std::string& name = n.op()->name;
  if (name == "_plus_scalar") return finite(data.low + s, data.high + s);
  if (name == "_minus_scalar") return finite(data.low - s, data.high - s);
  if (name == "_rminus_scalar") return finite(s - data.high, s - data.low);
  const double factor = name == "_mul_scalar" ? s : 1 / s;  // _div_scalar
  return finite(std::min(data.low * factor, data.high * factor),
                std::max(data.low * factor, data.high * factor));
}

Bounds of_pair(const Node& n, const Bounds& a, const Bounds& b) {
  const std::string& name = n.op()->name;
  if (!std::isfinite(a.low) || !std::isfinite(b.low)) return {};
  if (name.ends_with("_add")) return finite(a.low + b.low, a.high + b.high);
  if (name.ends_with("_sub")) return finite(a.low - b.high, a.high - b.low);
  const auto [low, high] =
      std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return finite(low, high);
}

bool binary(const Graph& graph, ValueId v, int depth) {
  const Node& n = graph.node(v);
  if (n.kind != NodeKind::kOp || depth == 0 || v.output != 0 || !n.post_ops.empty()) return false;
  const std::string& name = n.op()->name;
  if (gives_binary(n) || name == "_zeros" || name == "_ones" || name == "zeros_like" ||
      name == "ones_like")
    return true;
  if (takes_elements(n) || casts(n)) return binary(graph, n.inputs[0], depth - 1);
  return multiplies(n) && binary(graph, n.inputs[0], depth - 1) &&
         binary(graph, n.inputs[1], depth - 1);
}

Bounds bounds(const Graph& graph, ValueId v, int depth) {
  static const Names scalar = {"_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar",
                               "_div_scalar"};
  static const Names pair = {"broadcast_add", "elemwise_add",  "broadcast_sub",
                             "elemwise_sub",  "broadcast_mul", "elemwise_mul"};
  const Node& n = graph.node(v);
  if (n.kind != NodeKind::kOp || depth == 0 || v.output != 0 || !n.post_ops.empty()) return {};
  const std::string& name = n.op()->name;
  if (name == "_zeros" || name == "zeros_like") return {0, 0};
  if (name == "_ones" || name == "ones_like") return {1, 1};
  if (gives_binary(n)) return {0, 1};
  // Excludes integers, which wrap around, and 16-bit floats, which overflow.
  const DType dtype = n.outputs[0].dtype;
  const bool keeps_numbers = dtype == DType::kFloat32 || dtype == DType::kFloat64;
  if (takes_elements(n)) return bounds(graph, n.inputs[0], depth - 1);
  if (!keeps_numbers && !binary(graph, v, depth)) return {};
  if (casts(n)) return bounds(graph, n.inputs[0], depth - 1);
  if (name == "_full") {
    const double value = params_of<FullParams>(n).value;
    return finite(value, value);
  }
  if (is_in(scalar, n)) return of_scalar(n, bounds(graph, n.inputs[0], depth - 1));
  if (is_in(pair, n))
    return of_pair(n, bounds(graph, n.inputs[0], depth - 1), bounds(graph, n.inputs[1], depth - 1));
  return {};
}

bool uniform(const Graph& graph, ValueId v, int64_t blocks, int depth);

// Returns whether broadcasting `from` to the shape `to` gives uniform blocks.
bool uniform_after(const Graph& graph, ValueId from, const Shape& to, int64_t blocks, int depth) {
  const Shape& shape = graph.spec(from).shape;
  const int lead = to.ndim() - shape.ndim();
  for (int split = 0; split <= to.ndim(); ++split) {
    if (to.product(0, split) != blocks) continue;
    const int own = std::clamp(split - lead, 0, shape.ndim());  // axes of `from` before the split
    if (shape.product(own, shape.ndim()) == 1 ||
        uniform(graph, from, shape.product(0, own), depth - 1))
      return true;
  }
  return false;
}

bool uniform(const Graph& graph, ValueId v, int64_t blocks, int depth) {
  const int64_t size = graph.spec(v).shape.size();
  if (size == 0 || blocks <= 0 || size % blocks != 0) return false;
  if (size == blocks) return true;
  const Node& n = graph.node(v);
  if (n.kind != NodeKind::kOp || depth == 0 || v.output != 0 || !n.post_ops.empty()) return false;
  if (bounds(graph, v, depth).is_constant()) return true;
  if (n.op()->alias || casts(n)) return uniform(graph, n.inputs[0], blocks, depth - 1);
  if ((!broadcasts(n) && !n.op()->pointwise) || n.inputs.empty()) return false;
  const size_t read = broadcasts(n) ? 1 : n.inputs.size();  // the second input gives only the shape
  for (size_t i = 0; i < read; ++i)
    if (!uniform_after(graph, n.inputs[i], graph.spec(v).shape, blocks, depth)) return false;
  return true;
}

// Returns whether broadcasting `from` to `to` repeats elements only within blocks of `to`.
bool repeats_within(const Shape& from, const Shape& to, int64_t blocks) {
  for (int split = 0; split <= to.ndim(); ++split)
    if (from.ndim() == to.ndim() && to.product(0, split) == blocks &&
        std::equal(from.begin(), from.begin() + split, to.begin()))
      return true;
  return false;
}

// `spread` has the axes of `from`, but with other lengths. Returns `to` with these lengths for the
// axes that `from` also has. Returns nullopt if `from` and `to` differ by more than axes of
// length 1.
std::optional<Shape> carry_over(const Shape& from, const Shape& spread, const Shape& to) {
  Shape result;
  int at = 0;
  for (int i = 0; i < to.ndim(); ++i) {
    if (to[i] == 1) {
      result.push_back(1);
      continue;
    }
    while (at < from.ndim() && from[at] == 1) ++at;
    if (at == from.ndim() || from[at] != to[i]) return std::nullopt;
    result.push_back(spread[at++]);
  }
  for (; at < from.ndim(); ++at)
    if (from[at] != 1) return std::nullopt;
  return result;
}

Shape with_ndim(const Shape& shape, int ndim) {
  Shape result = Shape::filled(ndim - shape.ndim(), 1);
  for (int64_t d : shape) result.push_back(d);
  return result;
}

Spread spread(const Graph& graph, ValueId v, int depth) {
  const Node& n = graph.node(v);
  const Shape& shape = graph.spec(v).shape;
  const Spread itself{v, shape};
  if (n.kind != NodeKind::kOp || depth == 0 || v.output != 0 || !n.post_ops.empty()) return itself;
  const auto before = [&](size_t input) { return spread(graph, n.inputs[input], depth - 1); };
  if (broadcasts(n)) {
    const Spread from = before(0);
    return {from.value, with_ndim(from.shape, shape.ndim())};
  }
  if (n.op()->alias) {
    const Spread from = before(0);
    const auto shape_here = carry_over(graph.spec(n.inputs[0]).shape, from.shape, shape);
    return shape_here ? Spread{from.value, *shape_here} : itself;
  }
  if (!multiplies(n)) return itself;
  for (size_t i = 0; i < 2; ++i) {
    const Bounds other = bounds(graph, n.inputs[1 - i], depth - 1);
    if (other.low != 1 || other.high != 1) continue;
    const Spread from = before(i);
    return {from.value, with_ndim(from.shape, shape.ndim())};
  }
  return itself;
}

}  // namespace

Bounds bounds_of(const Graph& graph, ValueId v) { return bounds(graph, v, kDepth); }

bool is_binary(const Graph& graph, ValueId v) { return binary(graph, v, kDepth); }

std::optional<ValueId> uniform_blocks(const Graph& graph, ValueId v, int64_t blocks) {
  for (int depth = 0; depth < kDepth; ++depth) {
    const Node& n = graph.node(v);
    if (n.kind != NodeKind::kOp) break;
    const bool repeats =
        broadcasts(n) && repeats_within(graph.spec(n.inputs[0]).shape, graph.spec(v).shape, blocks);
    if (!n.op()->alias && !repeats) break;
    v = n.inputs[0];
  }
  if (!uniform(graph, v, blocks, kDepth)) return std::nullopt;
  return v;
}

Spread find_spread(const Graph& graph, ValueId v) { return spread(graph, v, kDepth); }

}  // namespace mxlite::graph
