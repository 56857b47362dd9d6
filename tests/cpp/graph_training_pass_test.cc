// Tests passes over graphs of training, and what their backward graphs compute again.
#include "cpp/graph/passes/training_passes.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

const PassContext kExact{{}, true, false};

Graph checked(Graph g, const char* pass) {
  verify(g, pass);
  return g;
}

// Returns the gradient of a slice of `whole` that begins at `begin` along axis 1.
ValueId placed(Maker& m, ValueId grad, const Shape& whole, int64_t begin) {
  Shape at = Shape::filled(whole.ndim(), 0);
  at[1] = begin;
  return m.op("_slice_backward", {grad},
              {{"shape", whole}, {"begin", at}, {"step", Shape::filled(whole.ndim(), 1)}});
}

TEST(JoinSlices, ThoseThatCoverTheArray) {
  TrainingMaker m;
  const Shape whole{20, 12, 90};
  const ValueId q = m.input({20, 4, 90}), k = m.input({20, 6, 90}), v = m.input({20, 2, 90});
  // The gradients are added in another order than that of the slices.
  const ValueId first = m.op("elemwise_add", {placed(m, v, whole, 10), placed(m, q, whole, 0)});
  const ValueId sum = m.op("elemwise_add", {first, placed(m, k, whole, 4)});
  const Graph traced = m.finish({m.op("negative", {sum})});
  const Graph g = checked(join_slices(traced, kExact), "join-slices");
  EXPECT_EQ(count_ops(g, "_slice_backward"), 0) << g.text();
  EXPECT_EQ(count_ops(g, "elemwise_add"), 0);
  EXPECT_EQ(count_ops(g, "Concat"), 1);
  expect_same_as_eager(traced, 3, 0, true);
}

TEST(JoinSlices, NothingElse) {
  const Shape whole{20, 12, 90};
  const auto kept = [&](auto build) {
    TrainingMaker m;
    const ValueId y = build(m);
    const Graph traced = m.finish({m.op("tanh", {y}), y});
    const Graph g = checked(join_slices(traced, kExact), "join-slices");
    EXPECT_EQ(count_ops(g, "Concat"), 0) << g.text();
    EXPECT_EQ(g.nodes.size(), traced.nodes.size());
    expect_same_as_eager(traced, 4, 0, true);
  };
  kept([&](Maker& m) {  // a gap
    const ValueId a = m.input({20, 4, 90}), b = m.input({20, 6, 90});
    return m.op("elemwise_add", {placed(m, a, whole, 0), placed(m, b, whole, 6)});
  });
  kept([&](Maker& m) {  // an overlap
    const ValueId a = m.input({20, 7, 90}), b = m.input({20, 6, 90});
    return m.op("elemwise_add", {placed(m, a, whole, 0), placed(m, b, whole, 6)});
  });
  kept([&](Maker& m) {  // another array
    const ValueId a = m.input({20, 12, 90}), b = m.input({20, 6, 90});
    return m.op("elemwise_add", {a, placed(m, b, whole, 6)});
  });
  kept([&](Maker& m) {  // a gradient that is read twice
    const ValueId a = placed(m, m.input({20, 6, 90}), whole, 0);
    const ValueId b = placed(m, m.input({20, 6, 90}), whole, 6);
    return m.op("elemwise_mul", {m.op("elemwise_add", {a, b}), a});
  });
  kept([&](Maker& m) {  // slices along two axes
    const ValueId a = m.op("_slice_backward", {m.input({10, 12, 90})},
                           {{"shape", whole}, {"begin", Shape{0, 0, 0}}, {"step", Shape{1, 1, 1}}});
    return m.op("elemwise_add", {a, placed(m, m.input({20, 6, 90}), whole, 6)});
  });
}

TEST(AddEmbeddingRows, ToTheGradientOfTheTiedLayer) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    for (const bool rows_first : {false, true}) {
      TrainingMaker m;
      const ValueId grad = m.input({300, 24}, dtype), places = m.input({300});
      const ValueId index = m.op("Cast", {m.op("_mul_scalar", {places}, {{"scalar", 1100.0}})},
                                 {{"dtype", DType::kInt32}});  // some are beyond the table
      const ValueId total = m.op("negative", {m.input({1000, 24}, dtype)});
      const ValueId rows = m.op("_embedding_backward", {grad, index},
                                {{"input_dim", int64_t{1000}}, {"output_dim", int64_t{24}}});
      const ValueId sum =
          rows_first ? m.op("elemwise_add", {rows, total}) : m.op("elemwise_add", {total, rows});
      const Graph traced = m.finish({sum});
      const Graph g = checked(add_embedding_rows(traced, kExact), "add-embedding-rows");
      EXPECT_EQ(count_ops(g, "_embedding_backward"), 0) << g.text();
      EXPECT_EQ(count_ops(g, "elemwise_add"), 0);
      EXPECT_EQ(count_ops(g, "_embedding_backward_add"), 1);
      expect_same_as_eager(traced, 5, 0, true);
    }
}

TEST(AddEmbeddingRows, NotIfTheRowsAreNeededToo) {
  TrainingMaker m;
  const ValueId rows =
      m.op("_embedding_backward", {m.input({300, 24}), m.input({300}, DType::kInt32)},
           {{"input_dim", int64_t{1000}}, {"output_dim", int64_t{24}}});
  const ValueId sum = m.op("elemwise_add", {m.input({1000, 24}), rows});
  const Graph g = add_embedding_rows(m.finish({sum, rows}), kExact);
  EXPECT_EQ(count_ops(g, "_embedding_backward_add"), 0);
  EXPECT_EQ(count_ops(g, "elemwise_add"), 1);
}

TEST(FuseDropout, WithTheAdditionOfAResidual) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64})
    for (const bool dropout_first : {false, true}) {
      TrainingMaker m;
      const ValueId x = m.input({200, 300}, dtype), y = m.input({200, 300}, dtype);
      const ValueId dropped = m.op("Dropout", {x}, {{"p", 0.3}});
      const ValueId sum =
          dropout_first ? m.op("elemwise_add", {dropped, y}) : m.op("broadcast_add", {y, dropped});
      const Graph traced = m.finish({m.op("tanh", {sum})});
      const Graph g = checked(fuse_dropout(traced, kExact), "fuse-dropout");
      EXPECT_EQ(count_ops(g, "Dropout"), 0) << g.text();
      EXPECT_EQ(count_ops(g, "_dropout_add"), 1);
      const Arrays arrays = random_arrays(g, 6);
      const auto run = [&](const Graph& graph) {
        const RandomReplayScope replay({7, 11});
        return run_eagerly(graph, arrays)[0];
      };
      expect_close(run(g), run(traced), 0);
    }
}

TEST(FuseDropout, NotIfSomethingElseWouldChange) {
  const auto kept = [](auto build) {
    TrainingMaker m;
    const std::vector<ValueId> outputs = build(m);
    const Graph g = fuse_dropout(m.finish(outputs), kExact);
    EXPECT_EQ(count_ops(g, "_dropout_add"), 0) << g.text();
  };
  kept([](Maker& m) {  // Dropout's result is needed
    const ValueId d = m.op("Dropout", {m.input({200, 300})}, {{"p", 0.3}});
    return std::vector<ValueId>{m.op("elemwise_add", {d, m.input({200, 300})}), d};
  });
  kept([](Maker& m) {  // a mask for columns
    const ValueId d = m.op("Dropout", {m.input({200, 300})}, {{"p", 0.3}, {"axes", Shape{0}}});
    return std::vector<ValueId>{m.op("elemwise_add", {d, m.input({200, 300})})};
  });
  kept([](Maker& m) {  // a broadcast addition
    const ValueId d = m.op("Dropout", {m.input({200, 300})}, {{"p", 0.3}});
    return std::vector<ValueId>{m.op("broadcast_add", {d, m.input({1, 300})})};
  });
  kept([](Maker& m) {  // numbers that are drawn in between
    const ValueId d = m.op("Dropout", {m.input({200, 300})}, {{"p", 0.3}});
    const ValueId r = m.op("Dropout", {m.input({200, 300})}, {{"p", 0.3}, {"axes", Shape{0}}});
    return std::vector<ValueId>{m.op("elemwise_add", {d, m.op("tanh", {r})})};
  });
}

// Adds the gradient of BatchNorm, an addition and relu for the output gradient `grad`.
ValueId norm_gradient(Maker& m, ValueId grad, DType dtype) {
  const ValueId numbers = m.op("abs", {m.op("_mul_scalar", {m.input({24})}, {{"scalar", 255.0}})});
  const ValueId bits = m.op("Cast", {numbers}, {{"dtype", DType::kUInt8}});
  const ValueId x = m.input({2, 8, 3, 4}, dtype);
  return m.op("_batch_norm_add_relu_bits_backward",
              {grad, bits, x, m.parameter({8}), m.parameter({8}), m.parameter({8})});
}

TEST(AddNormGradients, WhereTheOutputHasTwoReaders) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    TrainingMaker m;
    const Shape shape{2, 8, 3, 4};
    const ValueId sum = m.op("elemwise_add", {m.input(shape, dtype), m.input(shape, dtype)});
    const ValueId made = norm_gradient(m, sum, dtype);
    const Graph traced = m.finish({made, {made.node, 1}, {made.node, 2}, {made.node, 3}});
    const Graph g = checked(add_norm_gradients(traced, kExact), "add-norm-gradients");
    EXPECT_EQ(count_ops(g, "elemwise_add"), 0) << g.text();
    EXPECT_EQ(count_ops(g, "_batch_norm_add_relu_bits_backward"), 1);
    const Arrays arrays = random_arrays(g, 8);
    const auto expected = run_eagerly(traced, arrays), found = run_eagerly(g, arrays);
    for (size_t i = 0; i < expected.size(); ++i) expect_close(found[i], expected[i], 0);
    expect_same_as_eager(traced, 9, 0, true);
  }
}

TEST(AddNormGradients, NotIfTheSumIsNeededOrBroadcast) {
  const auto kept = [](auto build) {
    TrainingMaker m;
    const Graph traced = m.finish(build(m));
    EXPECT_EQ(add_norm_gradients(traced, kExact).nodes.size(), traced.nodes.size());
  };
  kept([](Maker& m) {
    const ValueId sum = m.op("elemwise_add", {m.input({2, 8, 3, 4}), m.input({2, 8, 3, 4})});
    return std::vector<ValueId>{norm_gradient(m, sum, DType::kFloat32), sum};
  });
  kept([](Maker& m) {
    const ValueId sum = m.op("broadcast_add", {m.input({2, 8, 3, 4}), m.input({1, 8, 1, 1})});
    return std::vector<ValueId>{norm_gradient(m, sum, DType::kFloat32)};
  });
}

// Returns the backward graph of two dense layers with GELU between them.
BackwardGraph backward_of(int64_t rows, bool repeats) {
  TrainingMaker m;
  const ValueId x = m.input({rows, 32});
  const ValueId w1 = m.parameter({512, 32}), w2 = m.parameter({32, 512});
  const ValueId inner =
      m.op("FullyConnected", {x, w1}, {{"num_hidden", int64_t{512}}, {"no_bias", true}});
  const ValueId active = m.op("LeakyReLU", {inner}, {{"act_type", std::string("gelu")}});
  const ValueId y =
      m.op("FullyConnected", {active, w2}, {{"num_hidden", int64_t{32}}, {"no_bias", true}});
  const Graph graph = m.finish({y});
  return backward_of_all(graph, repeats);
}

TEST(Gradient, ComputesLargeResultsOfGeluAgain) {
  const BackwardGraph again = backward_of(1024, true);
  EXPECT_EQ(count_ops(again.graph, "LeakyReLU"), 1) << again.graph.text();
  const BackwardGraph kept = backward_of(1024, false);
  EXPECT_EQ(count_ops(kept.graph, "LeakyReLU"), 0);
  EXPECT_EQ(again.saved.size() + 1, kept.saved.size());
  EXPECT_EQ(count_ops(backward_of(16, true).graph, "LeakyReLU"), 0) << "small results are kept";
}

TEST(JoinGelu, WithItsGradient) {
  for (const char* type : {"gelu", "gelu_tanh"})
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64})
      for (const bool gelu_first : {false, true}) {
        TrainingMaker m;
        const Attrs attrs{{"act_type", std::string(type)}};
        const ValueId grad = m.input({70, 333}, dtype), x = m.input({70, 333}, dtype);
        ValueId y{}, x_grad{};
        if (gelu_first) y = m.op("LeakyReLU", {x}, attrs);
        x_grad = m.op("_leaky_relu_backward", {grad, x}, attrs);
        if (!gelu_first) y = m.op("LeakyReLU", {x}, attrs);
        const Graph traced = m.finish({m.op("negative", {y}), m.op("tanh", {x_grad})});
        const Graph g = checked(join_gelu(traced, kExact), "join-gelu");
        EXPECT_EQ(count_ops(g, "_gelu_and_backward"), 1) << g.text();
        EXPECT_EQ(count_ops(g, "LeakyReLU"), 0);
        EXPECT_EQ(count_ops(g, "_leaky_relu_backward"), 0);
        // The compiler may contract other products and sums to fused multiply-adds than in separate
        // loops.
        const double rounding = dtype == DType::kBFloat16  ? 1e-2
                                : dtype == DType::kFloat16 ? 1e-3
                                : dtype == DType::kFloat32 ? 1e-6
                                                           : 1e-14;
        expect_same_as_eager(traced, 7, rounding, true);
      }
}

TEST(JoinGelu, NotIfTheyDoNotBelongTogether) {
  const auto kept = [](auto build) {
    TrainingMaker m;
    const std::vector<ValueId> outputs = build(m);
    const Graph g = checked(join_gelu(m.finish(outputs), kExact), "join-gelu");
    EXPECT_EQ(count_ops(g, "_gelu_and_backward"), 0) << g.text();
  };
  const Attrs erf{{"act_type", std::string("gelu")}}, tanh{{"act_type", std::string("gelu_tanh")}};
  kept([&](Maker& m) {  // other data
    const ValueId grad = m.input({70, 333}), x = m.input({70, 333}), z = m.input({70, 333});
    return std::vector<ValueId>{m.op("LeakyReLU", {x}, erf),
                                m.op("_leaky_relu_backward", {grad, z}, erf)};
  });
  kept([&](Maker& m) {  // another form
    const ValueId grad = m.input({70, 333}), x = m.input({70, 333});
    return std::vector<ValueId>{m.op("LeakyReLU", {x}, erf),
                                m.op("_leaky_relu_backward", {grad, x}, tanh)};
  });
  kept([&](Maker& m) {  // a gradient that is computed from the GELU
    const ValueId x = m.input({70, 333}), y = m.op("LeakyReLU", {x}, erf);
    return std::vector<ValueId>{y, m.op("_leaky_relu_backward", {m.op("tanh", {y}), x}, erf)};
  });
  kept([&](Maker& m) {  // no GELU
    const Attrs leaky{{"act_type", std::string("leaky")}};
    const ValueId grad = m.input({70, 333}), x = m.input({70, 333});
    return std::vector<ValueId>{m.op("LeakyReLU", {x}, leaky),
                                m.op("_leaky_relu_backward", {grad, x}, leaky)};
  });
}

TEST(JoinGelu, InTheBackwardOfTwoDenseLayers) {
  const Graph backward = backward_of(1024, true).graph;
  const Graph g = checked(join_gelu(backward, kExact), "join-gelu");
  EXPECT_EQ(count_ops(g, "_gelu_and_backward"), 1) << g.text();
  EXPECT_EQ(count_ops(g, "LeakyReLU"), 0);
  EXPECT_EQ(count_ops(join_gelu(backward_of(1024, false).graph, kExact), "_gelu_and_backward"), 0);
}

TEST(Gradient, ComputesLargeResultsOfLayerNormAgain) {
  const auto backward = [](int64_t rows, bool repeats) {
    TrainingMaker m;
    const ValueId x = m.op("tanh", {m.input({rows, 512})});
    const ValueId gamma = m.parameter({512}), beta = m.parameter({512}), w = m.parameter({8, 512});
    const ValueId norm = m.op("LayerNorm", {x, gamma, beta});
    const Graph graph = m.finish(
        {m.op("FullyConnected", {norm, w}, {{"num_hidden", int64_t{8}}, {"no_bias", true}})});
    return backward_of_all(graph, repeats);
  };
  const BackwardGraph again = backward(1024, true), kept = backward(1024, false);
  EXPECT_EQ(count_ops(again.graph, "LayerNorm"), 1) << again.graph.text();
  EXPECT_EQ(count_ops(kept.graph, "LayerNorm"), 0);
  EXPECT_EQ(again.saved.size() + 1, kept.saved.size());
  EXPECT_EQ(count_ops(backward(16, true).graph, "LayerNorm"), 0) << "small results are kept";
}

// Returns the backward graph of BlockGrad applied to the value that `build` makes.
template <class Build>
BackwardGraph backward_below_block_grad(Build build) {
  TrainingMaker m;
  const ValueId x = m.input({4, 3}), w = m.parameter({3, 3});
  const Graph graph = m.finish({m.op("BlockGrad", {build(m, x, w)})});
  return backward_of_all(graph, false);
}

TEST(Gradient, LossesBelowBlockGradHaveTheirs) {
  const Attrs dense{{"num_hidden", int64_t{3}}, {"no_bias", true}};
  const BackwardGraph loss = backward_below_block_grad([&](Maker& m, ValueId x, ValueId w) {
    return m.op("tanh", {m.op("MakeLoss", {m.op("FullyConnected", {x, w}, dense)})});
  });
  EXPECT_EQ(loss.grads, (std::vector<int>{0, 1})) << loss.graph.text();
  EXPECT_EQ(count_ops(loss.graph, "_make_loss_backward"), 1);
}

TEST(Gradient, NothingElseBelowBlockGradIsDifferentiated) {
  const Attrs dense{{"num_hidden", int64_t{3}}, {"no_bias", true}};
  const BackwardGraph plain = backward_below_block_grad([&](Maker& m, ValueId x, ValueId w) {
    return m.op("tanh", {m.op("FullyConnected", {x, w}, dense)});
  });
  EXPECT_EQ(plain.grads, (std::vector<int>{BackwardGraph::kZero, BackwardGraph::kZero}));
  EXPECT_EQ(plain.saved.size(), 0u);
  const BackwardGraph other =
      backward_below_block_grad([&](Maker& m, ValueId x, ValueId) { return m.op("tanh", {x}); });
  EXPECT_EQ(other.grads, (std::vector<int>{BackwardGraph::kZero, BackwardGraph::kNone}));
}

// Compares the bytes that the backward of a residual block keeps of the values after the addition.
TEST(FuseNorm, KeepsABitPerElementOnGpus) {
  const auto kept = [](DeviceType device) {
    TrainingMaker m;
    const ValueId x = m.input({4, 16, 12, 12}), shortcut = m.input({4, 16, 12, 12});
    const ValueId sum = m.op("elemwise_add", {m.batch_norm(x), shortcut});
    // Pooling of this kind reads only the shape of its input in backward.
    const ValueId y = m.op("mean", {m.op("relu", {sum})}, {{"axis", Shape{2, 3}}});
    const PassContext context{{device, 0}, true, false};
    const Graph graph = checked(fuse_norm(m.finish({y}), context), "fuse-norm");
    int64_t bytes = 0;
    for (const ValueId v : backward_of_all(graph, true).saved)
      if (graph.node(v).kind == NodeKind::kOp) {
        const TensorSpec& spec = graph.spec(v);
        bytes += spec.shape.size() * static_cast<int64_t>(dtype_size(spec.dtype));
      }
    return bytes;
  };
  const int64_t elements = 4 * 16 * 12 * 12;
  EXPECT_EQ(kept(DeviceType::kCPU) - kept(DeviceType::kCUDA), elements * 4 - elements / 8);
}

}  // namespace
}  // namespace mxlite::graph::test
