// Small graphs for the tests of passes and executables, and their values computed node by node.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cpp/graph/gradient.h"
#include "cpp/graph/passes/passes.h"
#include "cpp/graph/run/executable.h"

namespace mxlite::graph::test {

class Maker {
 public:
  Graph graph;

  ValueId input(const Shape& shape, DType dtype = DType::kFloat32) {
    return graph.add_leaf(NodeKind::kInput, {shape, dtype}, str("data", graph.inputs.size()));
  }
  ValueId parameter(const Shape& shape, DType dtype = DType::kFloat32) {
    return graph.add_leaf(NodeKind::kParameter, {shape, dtype},
                          str("param", graph.parameters.size()));
  }
  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.add_op(name, std::move(inputs), attrs);
  }
  ValueId conv(ValueId data, int64_t filters, int64_t kernel = 1, bool bias = false) {
    const Shape& d = graph.spec(data).shape;
    std::vector<ValueId> in{data, parameter(Shape{filters, d[1], kernel, kernel})};
    if (bias) in.push_back(parameter(Shape{filters}));
    return op("Convolution", in,
              {{"kernel", Shape{kernel, kernel}},
               {"pad", Shape{kernel / 2, kernel / 2}},
               {"num_filter", filters},
               {"no_bias", !bias}});
  }
  ValueId batch_norm(ValueId data, bool fix_gamma = false) {
    const Shape channels{graph.spec(data).shape[1]};
    std::vector<ValueId> in{data};
    for (int i = 0; i < 4; ++i) in.push_back(parameter(channels));
    return op("BatchNorm", in, {{"fix_gamma", fix_gamma}, {"eps", 1e-3}});
  }
  Graph finish(std::vector<ValueId> outputs) {
    graph.outputs = std::move(outputs);
    return graph;
  }
};

struct TrainingMaker : Maker {
  TrainingMaker() { graph.training = true; }
};

inline int count_ops(const Graph& g, std::string_view op) {
  return static_cast<int>(std::count_if(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return n.kind == NodeKind::kOp && n.op()->name == op;
  }));
}
inline const Node& find_op(const Graph& g, std::string_view op) {
  for (const Node& n : g.nodes)
    if (n.kind == NodeKind::kOp && n.op()->name == op) return n;
  throw Error(ErrorKind::kError, str("no ", op, " in the graph"));
}

// Returns positive numbers, so that they serve as variances, too.
inline NDArrayRef random_array(const TensorSpec& spec, std::mt19937& gen, double low = 0.1,
                               double high = 1.0) {
  NDArrayRef a = NDArray::empty(spec, {});
  std::uniform_real_distribution<double> dist(low, high);
  dispatch_dtype(spec.dtype, [&](auto tag) {
    auto* p = static_cast<decltype(tag)*>(a->data());
    for (int64_t i = 0; i < a->size(); ++i)
      p[i] = static_cast<decltype(tag)>(static_cast<float>(dist(gen)));
  });
  engine::Engine::get().host_wrote(a->storage()->var());
  return a;
}

inline std::vector<double> values_of(const NDArrayRef& array) {
  const NDArrayRef a = contiguous(array);
  a->wait_to_read();
  std::vector<double> result;
  dispatch_dtype(a->dtype(), [&](auto tag) {
    const auto* p = static_cast<const decltype(tag)*>(a->data());
    for (int64_t i = 0; i < a->size(); ++i) result.push_back(static_cast<double>(p[i]));
  });
  return result;
}

struct Arrays {
  std::vector<NDArrayRef> inputs, parameters;
};
inline Arrays random_arrays(const Graph& g, uint32_t seed) {
  std::mt19937 gen(seed);
  Arrays a;
  for (int32_t id : g.inputs) a.inputs.push_back(random_array(g.node(id).outputs[0], gen, -1, 1));
  for (int32_t id : g.parameters) a.parameters.push_back(random_array(g.node(id).outputs[0], gen));
  return a;
}

// Runs each node as an eager call.
inline std::vector<NDArrayRef> run_eagerly(const Graph& g, const Arrays& arrays) {
  std::vector<std::vector<NDArrayRef>> values(g.nodes.size());
  auto at = [&](ValueId v) {
    return values[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (n.kind == NodeKind::kInput) values[i] = {arrays.inputs[static_cast<size_t>(n.index)]};
    if (n.kind == NodeKind::kParameter)
      values[i] = {arrays.parameters[static_cast<size_t>(n.index)]};
    if (n.kind == NodeKind::kConstant) values[i] = {n.value};
    if (n.kind != NodeKind::kOp) continue;
    NDArrays in;
    for (ValueId v : n.inputs) in.push_back(at(v));
    const NDArrays out = invoke(*n.op(), n.params(), in, {.training = g.training});
    values[i].assign(out.begin(), out.end());
  }
  std::vector<NDArrayRef> result;
  for (ValueId v : g.outputs) result.push_back(at(v));
  return result;
}

// Returns the backward graph from all outputs to all inputs and parameters.
inline BackwardGraph backward_of_all(const Graph& g, bool repeats = false) {
  const std::vector<uint8_t> needs(g.inputs.size() + g.parameters.size(), 1),
      heads(g.outputs.size(), 1);
  return build_backward(g, needs, heads, repeats);
}

// Returns outputs, then the gradients of all inputs and parameters for random gradients of the
// outputs.
inline std::vector<NDArrayRef> run_with_gradients(const Graph& g, const Arrays& arrays) {
  const BackwardGraph backward = backward_of_all(g);
  Graph forward = g;
  forward.outputs.insert(forward.outputs.end(), backward.saved.begin(), backward.saved.end());
  std::vector<NDArrayRef> results = run_eagerly(forward, arrays);
  const auto saved = results.begin() + static_cast<std::ptrdiff_t>(g.outputs.size());
  Arrays in{{saved, results.end()}, arrays.parameters};
  std::mt19937 gen(5);
  for (const ValueId v : g.outputs) in.inputs.push_back(random_array(g.spec(v), gen, -1));
  results.erase(saved, results.end());
  for (const NDArrayRef& grad : run_eagerly(backward.graph, in)) results.push_back(grad);
  return results;
}

inline void expect_close(const NDArrayRef& a, const NDArrayRef& b, double tolerance) {
  ASSERT_EQ(a->spec(), b->spec());
  const std::vector<double> x = values_of(a), y = values_of(b);
  double scale = 1e-3;
  for (double v : y) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(std::abs(x[i] - y[i]), tolerance * scale)
        << "at " << i << ": " << x[i] << " " << y[i];
}

// Compiles and runs the graph and compares with the eager calls.
inline void expect_same_as_eager(const Graph& g, uint32_t seed, double tolerance = 2e-5,
                                 bool exact = false) {
  const Arrays arrays = random_arrays(g, seed);
  const std::vector<NDArrayRef> expected = run_eagerly(g, arrays);
  const ExecutableRef e = Executable::compile(g, {}, exact);
  for (int run = 0; run < 2; ++run) {
    const NDArrays got = e->launch({arrays.inputs, arrays.parameters});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], tolerance);
  }
}

}  // namespace mxlite::graph::test
