// Tests which graphs the pass fuse-attention changes, their results, and the facts about values
// that it needs.
#include "cpp/graph/passes/value_facts.h"
#include "cpp/ops/cpu/processor.h"
#include "tests/cpp/graph_test_util.h"

namespace mxlite::graph::test {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kDepth = 4, kLength = 40, kKeys = 33;
constexpr int64_t kMatrices = kBatch * kHeads;

const std::string kQk = "_contrib_interleaved_matmul_selfatt_qk";
const std::string kValatt = "_contrib_interleaved_matmul_selfatt_valatt";

Graph fused(const Graph& g) {
  Graph result = fuse_attention(g, {{}, true, false});
  verify(result, "fuse-attention");
  return result;
}
int count_fused(const Graph& g) {
  const Graph result = fused(g);
  return count_ops(result, "_interleaved_selfatt") + count_ops(result, "_interleaved_encdec") +
         count_ops(result, "_contrib_dot_product_attention");
}

// Builds gluon-nlp's cells as they are traced.
class Cell : public Maker {
 public:
  ValueId qkv = input({kLength, kBatch, kHeads * 3 * kDepth});

  ValueId reshape(ValueId v, const Shape& shape) {
    return op("_reshape_to", {v}, {{"shape", shape}});
  }
  ValueId scale(ValueId v, double by) { return op("_mul_scalar", {v}, {{"scalar", by}}); }
  ValueId qk() { return op(kQk, {qkv}, {{"heads", kHeads}}); }
  ValueId valatt(ValueId weights) { return op(kValatt, {qkv, weights}, {{"heads", kHeads}}); }
  ValueId softmax(ValueId scores) { return op("softmax", {scores}); }
  ValueId softmax(ValueId scores, ValueId length) {
    return op("softmax", {scores, length}, {{"use_length", true}});
  }
  ValueId dropout(ValueId v, double p) { return op("Dropout", {v}, {{"p", p}}); }

  // (batch) numbers from 0 to `most`.
  ValueId lengths(int64_t most) {
    return scale(op("abs", {input({kBatch})}), static_cast<double>(most));
  }

  // Returns 1 where key < length, in the shape (batch, q_length, k_length), repeated for all heads.
  ValueId mask(ValueId length, int64_t q_length, int64_t k_length) {
    const ValueId steps =
        op("_arange", {}, {{"start", 0.0}, {"stop", static_cast<double>(k_length)}});
    const ValueId ones = op("_ones", {}, {{"shape", Shape{q_length, 1}}});
    ValueId v = op("broadcast_lesser",
                   {reshape(steps, Shape{1, k_length}), reshape(length, Shape{kBatch, 1})});
    v = op("expand_dims", {v}, {{"axis", int64_t{1}}});
    return op("broadcast_mul", {v, ones});
  }
  ValueId for_all_heads(ValueId mask) {
    const Shape s = graph.spec(mask).shape;
    ValueId v = op("expand_dims", {mask}, {{"axis", int64_t{1}}});
    v = op("broadcast_axis", {v}, {{"axis", Shape{1}}, {"size", Shape{kHeads}}});
    return reshape(v, Shape{kMatrices, s[1], s[2]});
  }
  ValueId hide(ValueId scores, ValueId mask, double by = -1e18) {
    return op("where", {mask, scores, scale(op("ones_like", {scores}), by)});
  }
};

TEST(FuseAttention, AddedMasksOfKnownBounds) {
  for (const bool all_heads : {false, true}) {
    Cell c;
    ValueId mask = c.mask(c.lengths(kLength), kLength, kLength);
    mask = c.scale(c.op("_rminus_scalar", {mask}, {{"scalar", 1.0}}), -1e4);
    const Shape same{kMatrices, 1, kLength};
    mask = all_heads
               ? c.for_all_heads(mask)
               : c.op("_mul_scalar", {c.op("_ones", {}, {{"shape", same}})}, {{"scalar", -3.0}});
    const ValueId scores = c.op("broadcast_add", {c.qk(), mask});
    const Graph g = c.finish({c.valatt(c.softmax(scores))});
    EXPECT_EQ(count_fused(g), 1);
    expect_same_as_eager(g, 3);
  }
}

TEST(FuseAttention, BatchDotWithMaskOfAllHeads) {
  for (const bool divided : {false, true}) {
    for (const bool masked : {false, true}) {
      Cell c;
      const ValueId query = c.input({kMatrices, kLength, kDepth});
      const ValueId key = c.input({kMatrices, kKeys, kDepth});
      const ValueId value = c.input({kMatrices, kKeys, 2 * kDepth});
      const ValueId lhs = divided ? c.op("_contrib_div_sqrt_dim", {query}) : query;
      ValueId v = c.op("batch_dot", {lhs, key}, {{"transpose_b", true}});
      if (masked) {
        const ValueId mask = c.for_all_heads(c.mask(c.lengths(kKeys), kLength, kKeys));
        v = c.op("elemwise_mul", {c.softmax(c.hide(v, mask)), mask});
      } else {
        v = c.softmax(v);
      }
      v = c.reshape(c.dropout(v, 0.1), Shape{kBatch, kHeads, kLength, kKeys});
      v = c.reshape(v, Shape{kMatrices, kLength, kKeys});
      const Graph g = c.finish({c.op("batch_dot", {v, value})});
      const Graph made = fused(g);
      EXPECT_EQ(count_ops(made, "_contrib_dot_product_attention"), 1) << made.text();
      EXPECT_EQ(count_ops(made, "batch_dot"), 0);
      EXPECT_EQ(count_ops(made, "_contrib_div_sqrt_dim"), 0);
      if (masked) {
        const Node& n = find_op(made, "_contrib_dot_product_attention");
        EXPECT_EQ(made.spec(n.inputs[3]).shape, (Shape{kBatch, 1, 1, kKeys})) << made.text();
      }
      expect_same_as_eager(g, 4);
    }
  }
}

// The pass leaves these graphs as they are, although they look alike.

TEST(FuseAttention, NotWhereStepsAreReadElsewhere) {
  for (int read = 0; read < 3; ++read) {
    Cell c;
    const ValueId scores = c.qk(), weights = c.softmax(scores), dropped = c.dropout(weights, 0.5);
    const ValueId y = c.valatt(dropped);
    const ValueId others[] = {scores, c.op("tanh", {weights}), dropped};
    EXPECT_EQ(count_fused(c.finish({y, others[read]})), 0) << read;
  }
}

TEST(FuseAttention, NotAcrossProjectionsOrHeads) {
  Cell c;
  const ValueId other = c.input({kLength, kBatch, kHeads * 3 * kDepth});
  const ValueId weights = c.softmax(c.op(kQk, {other}, {{"heads", kHeads}}));
  EXPECT_EQ(count_fused(c.finish({c.valatt(weights)})), 0);
}

TEST(FuseAttention, NotWithAnotherSoftmaxOrDropout) {
  const auto count = [](const char* op, const Attrs& attrs, bool is_dropout) {
    Cell c;
    const ValueId scores = c.qk();
    return count_fused(
        c.finish({c.valatt(c.op(op, {is_dropout ? c.softmax(scores) : scores}, attrs))}));
  };
  EXPECT_EQ(count("softmax", {}, false), 1);
  EXPECT_EQ(count("softmax", {{"axis", int64_t{1}}}, false), 0);
  EXPECT_EQ(count("softmax", {{"temperature", 2.0}}, false), 0);
  EXPECT_EQ(count("log_softmax", {}, false), 0);
  EXPECT_EQ(count("Dropout", {{"p", 0.5}}, true), 1);
  EXPECT_EQ(count("Dropout", {{"p", 0.5}, {"mode", std::string("always")}}, true), 0);
  EXPECT_EQ(count("Dropout", {{"p", 0.5}, {"axes", Shape{1}}}, true), 0);
}

TEST(FuseAttention, NotWithLengthsOfSingleQueries) {
  Cell c;
  const ValueId rows = c.op("Cast", {c.input({kMatrices, kLength})}, {{"dtype", DType::kInt32}});
  EXPECT_EQ(count_fused(c.finish({c.valatt(c.softmax(c.qk(), rows))})), 0);
  Cell heads;  // differs between the heads of a sample
  const ValueId each = heads.op("broadcast_axis", {heads.input({kMatrices, 1})},
                                {{"axis", Shape{1}}, {"size", Shape{kLength}}});
  const ValueId length = heads.op("Cast", {each}, {{"dtype", DType::kInt32}});
  EXPECT_EQ(count_fused(heads.finish({heads.valatt(heads.softmax(heads.qk(), length))})), 0);
}

TEST(FuseAttention, NotWithMasksOfWhichNothingIsKnown) {
  Cell added;
  ValueId v = added.op("broadcast_add", {added.qk(), added.input({1, 1, kLength})});
  EXPECT_EQ(count_fused(added.finish({added.valatt(added.softmax(v))})), 0);
  Cell infinite;  // a row with all keys hidden is NaN, but the fused operator gives zeros
  const ValueId hole =
      infinite.op("_full", {}, {{"shape", Shape{1, 1, kLength}}, {"value", -HUGE_VAL}});
  v = infinite.op("broadcast_add", {infinite.qk(), hole});
  EXPECT_EQ(count_fused(infinite.finish({infinite.valatt(infinite.softmax(v))})), 0);

  const auto hidden = [](bool known, double by, bool multiply) {
    Cell c;
    const ValueId mask = known ? c.for_all_heads(c.mask(c.lengths(kLength), kLength, kLength))
                               : c.input({kMatrices, kLength, kLength});
    ValueId weights = c.softmax(c.hide(c.qk(), mask, by));
    if (multiply) weights = c.op("elemwise_mul", {weights, mask});
    return count_fused(c.finish({c.valatt(weights)}));
  };
  EXPECT_EQ(hidden(true, -1e18, true), 1);
  EXPECT_EQ(hidden(false, -1e18, true), 0);
  EXPECT_EQ(hidden(true, -1e18, false), 0);  // a row without scores gives equal weights
  EXPECT_EQ(hidden(true, -1.0, true), 0);
}

TEST(FuseAttention, NotWithoutElements) {
  const auto count = [](int64_t keys, int64_t depth) {
    Maker m;
    const ValueId query = m.input({64, 64, depth}), key = m.input({64, keys, depth});
    ValueId v = m.op("softmax", {m.op("batch_dot", {query, key}, {{"transpose_b", true}})});
    v = m.op("batch_dot", {v, m.input({64, keys, 8})});
    return count_fused(m.finish({v}));
  };
  EXPECT_EQ(count(64, 4), 1);
  EXPECT_EQ(count(64, 0), 0);
  EXPECT_EQ(count(0, 4), 0);
}

TEST(FuseAttention, ForShortHalvesOnlyWhereTheProcessorMultipliesThem) {
  const auto count = [](DType dtype) {
    Maker m;
    const ValueId qkv = m.input({kLength, kBatch, kHeads * 3 * kDepth}, dtype);
    const ValueId weights = m.op("softmax", {m.op(kQk, {qkv}, {{"heads", kHeads}})});
    return count_fused(m.finish({m.op(kValatt, {qkv, weights}, {{"heads", kHeads}})}));
  };
  EXPECT_EQ(count(DType::kFloat16), 0);
  EXPECT_EQ(count(DType::kBFloat16), cpu::has_amx_bf16() ? 1 : 0);
}

// ---- facts of values ---------------------------------------------------------------------------

TEST(ValueFacts, Bounds) {
  Maker m;
  const ValueId x = m.input({4});
  const ValueId bit = m.op("_greater_scalar", {x}, {{"scalar", 0.0}});
  const ValueId hidden =
      m.op("_mul_scalar", {m.op("_rminus_scalar", {bit}, {{"scalar", 1.0}})}, {{"scalar", -1e4}});
  EXPECT_EQ(bounds_of(m.graph, hidden).low, -1e4);
  EXPECT_EQ(bounds_of(m.graph, hidden).high, 0);
  const ValueId sum = m.op("elemwise_add", {hidden, bit});
  EXPECT_EQ(bounds_of(m.graph, sum).low, -1e4);
  EXPECT_EQ(bounds_of(m.graph, sum).high, 1);
  EXPECT_FALSE(std::isfinite(bounds_of(m.graph, m.op("elemwise_add", {hidden, x})).low));
  const ValueId half = m.op("Cast", {hidden}, {{"dtype", DType::kFloat16}});
  EXPECT_FALSE(std::isfinite(bounds_of(m.graph, half).low));
  EXPECT_TRUE(bounds_of(m.graph, m.op("ones_like", {x})).is_constant());
}

TEST(ValueFacts, Binary) {
  Maker m;
  const ValueId x = m.input({2, 3});
  const ValueId bit = m.op("broadcast_lesser", {x, m.input({2, 1})});
  EXPECT_TRUE(is_binary(m.graph, bit));
  EXPECT_TRUE(is_binary(m.graph, m.op("elemwise_mul", {bit, m.op("ones_like", {x})})));
  EXPECT_TRUE(is_binary(m.graph, m.op("Cast", {bit}, {{"dtype", DType::kInt32}})));
  EXPECT_FALSE(is_binary(m.graph, m.op("elemwise_mul", {bit, x})));
  EXPECT_FALSE(is_binary(m.graph, m.op("elemwise_add", {bit, bit})));
  ValueId v = bit;  // a search ends after some operators, however many paths lead back
  for (int i = 0; i < 60; ++i) v = m.op("elemwise_mul", {v, v});
  EXPECT_FALSE(is_binary(m.graph, v));
}

TEST(ValueFacts, UniformBlocks) {
  Maker m;
  const ValueId x = m.input({2, 1});
  const ValueId zeros = m.op("_zeros", {}, {{"shape", Shape{1, 5}}});
  const ValueId rows = m.op("broadcast_add", {x, zeros});
  EXPECT_EQ(uniform_blocks(m.graph, rows, 2), rows);
  EXPECT_EQ(uniform_blocks(m.graph, rows, 1), std::nullopt);
  const ValueId wide =
      m.op("broadcast_to", {m.op("_reshape_to", {rows}, {{"shape", Shape{2, 1, 5}}})},
           {{"shape", Shape{2, 4, 5}}});
  EXPECT_EQ(uniform_blocks(m.graph, wide, 2), rows);
  const ValueId swapped = m.op("broadcast_to", {x}, {{"shape", Shape{3, 2, 1}}});
  EXPECT_EQ(uniform_blocks(m.graph, swapped, 3), std::nullopt);
  EXPECT_EQ(uniform_blocks(m.graph, swapped, 6), swapped);
  EXPECT_EQ(uniform_blocks(m.graph, m.op("transpose", {rows}), 5), std::nullopt);
}

TEST(ValueFacts, Spread) {
  Maker m;
  const ValueId x = m.input({2, 5});
  const ValueId ones = m.op("_ones", {}, {{"shape", Shape{3, 1}}});
  const ValueId each = m.op("expand_dims", {x}, {{"axis", int64_t{1}}});
  const ValueId rows = m.op("broadcast_mul", {each, ones});
  const Spread found = find_spread(m.graph, rows);
  EXPECT_EQ(found.value, x);
  EXPECT_EQ(found.shape, (Shape{2, 1, 5}));
  const ValueId joined = m.op("_reshape_to", {rows}, {{"shape", Shape{6, 5}}});
  EXPECT_EQ(find_spread(m.graph, joined).value, joined);
}

}  // namespace
}  // namespace mxlite::graph::test
