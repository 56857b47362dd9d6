// Reads networks from files of MXNet 1.9.1 without Python, binds them to arrays, and runs them
// forward and backward.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cpp/base/file_error.h"
#include "cpp/ndarray/params_file.h"
#include "cpp/symbol/bound_graph.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/files.h"
#include "tests/cpp/errors.h"

namespace mxlite::symbol {
namespace {

using autograd::GradReq;
using ArraysByName = std::map<std::string, NDArrayRef>;

const std::string kClassifier = std::string(MXLITE_TEST_DATA) + "/mxnet_1_9_1/classifier";

NodeOutputs classifier() {
  const std::string path = kClassifier + "-symbol.json";
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  FileHooks hooks;
  hooks.make_call = make_call;
  return load(text.str(), path, hooks);
}

// Names begin with "arg:" or "aux:".
ArraysByName parameters() {
  const NamedArrays found = load_params(kClassifier + "-0001.params");
  ArraysByName arrays;
  for (size_t i = 0; i < found.names.size(); ++i)
    arrays[found.names[i].substr(4)] = found.arrays[i];
  return arrays;
}

std::span<float> floats(const NDArrayRef& array) {
  array->wait_to_read();
  return {static_cast<float*>(array->data()), static_cast<size_t>(array->size())};
}

NDArrayRef rows(int64_t count) {
  const NDArrayRef array = NDArray::empty({Shape{count, 5}, DType::kFloat32}, {});
  float next = -1;
  for (float& value : floats(array)) {
    value = next;
    next += 0.25F;
  }
  return array;
}

TEST(BoundGraph, ComputesWhatMXNetComputes) {
  ArraysByName given = parameters();
  given["data"] = rows(2);
  const NodeOutputs heads = classifier();
  BoundGraph graph(heads, bound_arrays(heads, given, {}), Calls(), "classifier");
  const std::span<float> found = floats(graph.forward(false, false)[0]);
  // tests/data/make_classifier.py printed them.
  constexpr float kExpected[] = {0.16539925F, 0.6295932F, 0.20500755F,
                                 0.01932543F, 0.9596494F, 0.0210252F};
  ASSERT_EQ(found.size(), std::size(kExpected));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], kExpected[i], 1e-6F);
}

TEST(BoundGraph, BindsTheSameParametersForOtherShapes) {
  const ArraysByName given = parameters();
  const NodeOutputs heads = classifier();
  for (const int64_t count : {1, 3}) {
    const BoundArrays arrays = bound_arrays(heads, given, {{"data", {count, 5}}});
    BoundGraph graph(heads, arrays, Calls(), "classifier");
    EXPECT_EQ(graph.forward(false, false)[0]->shape(), (Shape{count, 3}));
    EXPECT_EQ(graph.num_signatures(), 1u);
  }
}

TEST(BoundGraph, WritesTheSameGradientsTwice) {
  ArraysByName given = parameters();
  given["data"] = rows(2);
  const NodeOutputs heads = classifier();
  const BoundArrays arrays = bound_arrays(heads, given, {}, {}, GradReq::kWrite);
  BoundGraph graph(heads, arrays, Calls(), "classifier");
  // The arguments are data, fc1_weight, fc1_bias, bn_gamma, bn_beta, fc2_weight, fc2_bias and
  // label.
  constexpr size_t kBias = 6;
  for (const bool is_first : {true, false}) {
    EXPECT_TRUE(graph.prepare_backward(false)) << "the second backward runs forward again";
    graph.backward({}, false);
    const std::span<float> output = floats(graph.outputs()[0]);
    const std::span<float> gradient = floats(arrays.gradients[kBias]);
    for (size_t i = 0; i < gradient.size(); ++i) {  // the labels are 0
      const float expected = output[i] + output[3 + i] - (i == 0 ? 2.0F : 0.0F);
      EXPECT_NEAR(gradient[i], expected, 1e-6F) << is_first;
    }
  }
}

TEST(BoundGraph, NamesVariablesWithoutShape) {
  const NodeOutputs heads = classifier();
  EXPECT_HAS(error_of([&] { bound_arrays(heads, {}, {}); }),
             "the shape of data cannot be inferred");
}

TEST(ParamsFile, RefusesFilesThatAreMissing) {
  EXPECT_THROW(load_params("no/such.params"), FileReadError);
  EXPECT_THROW(load_params(MXLITE_TEST_DATA), FileReadError);
  EXPECT_THROW(load_params(kClassifier + "-symbol.json"), FileError);
}

}  // namespace
}  // namespace mxlite::symbol
