// Tests the interfaces for inference: <mxlite/predict.h>, <mxlite/predict.hpp>, and MXNet's C
// interface.
#include <gtest/gtest.h>
#include <mxlite/predict.h>
#include <mxnet/c_predict_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <mxlite/predict.hpp>
#include <sstream>
#include <thread>

#include "tests/cpp/errors.h"

namespace {

const std::string kPrefix = std::string(MXLITE_TEST_DATA) + "/mxnet_1_9_1/classifier";
const std::string kSymbol = kPrefix + "-symbol.json", kParams = kPrefix + "-0001.params";
// Input of shape (2, 5) and the output that tests/data/make_classifier.py printed for it.
constexpr std::array<float, 10> kRows = {-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.25};
constexpr std::array<float, 6> kScores = {0.16539925F, 0.6295932F, 0.20500755F,
                                          0.01932543F, 0.9596494F, 0.0210252F};

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The arguments of mxlite_predict_create. Each test changes one of them.
struct Arguments {
  std::string symbol = content(kSymbol), params = content(kParams);
  int device_type = MXLITE_CPU, device_id = 0;
  std::vector<const char*> names = {"data"};
  std::vector<int> ndims = {2};
  std::vector<int64_t> shapes = {2, 5};
  std::vector<int> dtypes = {MXLITE_INFERRED};
  std::vector<const char*> outputs;

  mxlite_predictor* create() const {
    mxlite_predictor* made = nullptr;
    const int status = mxlite_predict_create(
        symbol.data(), symbol.size(), params.data(), params.size(), device_type, device_id,
        static_cast<int>(names.size()), names.data(), ndims.data(), shapes.data(), dtypes.data(),
        static_cast<int>(outputs.size()), outputs.data(), &made);
    EXPECT_EQ(status == 0, made != nullptr) << mxlite_predict_error();
    return made;
  }
};

void expect_scores(const float* found, size_t count = kScores.size()) {
  for (size_t i = 0; i < count; ++i) EXPECT_NEAR(found[i], kScores[i], 1e-6F) << i;
}

void run(mxlite_predictor* predictor) {
  std::array<float, kScores.size()> scores{};
  EXPECT_EQ(mxlite_predict_set_input(predictor, 0, kRows.data(), sizeof kRows), 0);
  EXPECT_EQ(mxlite_predict_forward(predictor), 0) << mxlite_predict_error();
  EXPECT_EQ(mxlite_predict_get_output(predictor, 0, scores.data(), sizeof scores), 0);
  expect_scores(scores.data());
}

TEST(Predict, ComputesWhatMXNetComputes) {
  EXPECT_EQ(mxlite_predict_version(), MXLITE_PREDICT_VERSION);
  mxlite_predictor* const predictor = Arguments().create();
  int count = 0, index = -1, dtype = -1, ndim = -1;
  const char* name = nullptr;
  const int64_t* shape = nullptr;
  EXPECT_EQ(mxlite_predict_num_inputs(predictor, &count), 0);
  EXPECT_EQ(count, 2) << "data and softmax_label";
  EXPECT_EQ(mxlite_predict_num_outputs(predictor, &count), 0);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(mxlite_predict_find_input(predictor, "data", &index), 0);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(mxlite_predict_find_output(predictor, "softmax_output", &index), 0);
  EXPECT_EQ(mxlite_predict_output(predictor, 0, &name, &dtype, &ndim, &shape), 0);
  EXPECT_STREQ(name, "softmax_output");
  EXPECT_EQ(dtype, MXLITE_FLOAT32);
  ASSERT_EQ(ndim, 2);
  EXPECT_EQ((std::array{shape[0], shape[1]}), (std::array<int64_t, 2>{2, 3}));
  run(predictor);
  run(predictor);
  EXPECT_EQ(mxlite_predict_free(predictor), 0);
}

TEST(Predict, SharesWeightsAmongShapesAndThreads) {
  mxlite_predictor* const first = Arguments().create();
  const char* const name = "data";
  const int ndim = 2;
  const int64_t row[] = {1, 5};
  mxlite_predictor *single = nullptr, *other = nullptr;
  EXPECT_EQ(mxlite_predict_reshape(first, 1, &name, &ndim, row, &single), 0);
  EXPECT_EQ(mxlite_predict_reshape(first, 0, nullptr, nullptr, nullptr, &other), 0);
  std::array<float, 3> scores{};
  EXPECT_EQ(mxlite_predict_set_input(single, 0, kRows.data(), sizeof(float) * 5), 0);
  EXPECT_EQ(mxlite_predict_forward(single), 0);
  EXPECT_EQ(mxlite_predict_get_output(single, 0, scores.data(), sizeof scores), 0);
  expect_scores(scores.data(), 3);
  std::thread thread([&] {
    for (int i = 0; i < 50; ++i) run(other);
  });
  for (int i = 0; i < 50; ++i) run(first);
  thread.join();
  EXPECT_EQ(mxlite_predict_free(first), 0);
  run(other);
  for (mxlite_predictor* const rest : {single, other}) EXPECT_EQ(mxlite_predict_free(rest), 0);
}

TEST(Predict, ReturnsValuesInsideTheNetwork) {
  Arguments arguments;
  arguments.outputs = {"relu_output", "fc2_output"};
  mxlite_predictor* const predictor = arguments.create();
  std::array<float, 8> relu{};
  EXPECT_EQ(mxlite_predict_set_input(predictor, 0, kRows.data(), sizeof kRows), 0);
  EXPECT_EQ(mxlite_predict_forward(predictor), 0);
  EXPECT_EQ(mxlite_predict_get_output(predictor, 0, relu.data(), sizeof relu), 0);
  for (const float value : relu) EXPECT_GE(value, 0);
  EXPECT_NE(*std::max_element(relu.begin(), relu.end()), 0);
  EXPECT_EQ(mxlite_predict_free(predictor), 0);
}

TEST(Predict, NamesTheWrongArgument) {
  struct Case {
    void (*change)(Arguments&);
    const char* text;
  };
  const Case cases[] = {
      {[](Arguments& a) { a.symbol = "{"; }, "the symbol"},
      {[](Arguments& a) { a.symbol.clear(); }, "the symbol"},
      {[](Arguments& a) { a.symbol[a.symbol.find("relu")] = '\xC2'; }, "?e"},
      {[](Arguments& a) { a.params.resize(a.params.size() / 2); }, "truncated or damaged"},
      {[](Arguments& a) { a.params = content(kSymbol); }, "the parameters"},
      {[](Arguments& a) { a.params.resize(0); }, "the parameters"},
      {[](Arguments& a) { a.names = {"image"}; }, "got 'image'"},
      {[](Arguments& a) { a.names = {"fc1_weight"}; },
       "must be one of data, softmax_label, got 'fc1_weight'"},
      {[](Arguments& a) { a.names = {nullptr}; }, "names must be an address, got null"},
      {[](Arguments& a) { a.names.clear(); }, "the shape of input 'data' must be given"},
      {[](Arguments& a) {
         a.shapes = {2, 4};
       },
       "fc1"},
      {[](Arguments& a) {
         a.shapes = {2, 0};
       },
       "extents of at least 1"},
      {[](Arguments& a) {
         a.shapes = {-2, 5};
       },
       "extents of at least 1"},
      {[](Arguments& a) {
         a.shapes = {int64_t{1} << 62, 5};
       },
       "2^63 bytes"},
      {[](Arguments& a) { a.ndims = {99}; }, "must be in [0, 12], got 99"},
      {[](Arguments& a) { a.ndims = {-1}; }, "got -1"},
      {[](Arguments& a) { a.dtypes = {77}; }, "the type code must be in [0, 12], got 77"},
      {[](Arguments& a) { a.device_type = 9; }, "the device type must be 1 (CPU) or 2 (GPU), got"},
      {[](Arguments& a) { a.outputs = {"relu_outptu"}; }, "did you mean 'relu_output'?"},
  };
  for (const Case& c : cases) {
    Arguments arguments;
    c.change(arguments);
    EXPECT_EQ(arguments.create(), nullptr);
    EXPECT_HAS(mxlite_predict_error(), std::string("mxlite_predict_create: "));
    EXPECT_HAS(mxlite_predict_error(), c.text);
  }
}

TEST(Predict, RefusesWrongCalls) {
  mxlite_predictor* const predictor = Arguments().create();
  float number = 0;
  const auto expect = [](int status, const char* text) {
    EXPECT_EQ(status, -1);
    EXPECT_HAS(mxlite_predict_error(), text);
  };
  int index = 0;
  expect(mxlite_predict_forward(predictor), "mxlite_predict_forward: the input 'data' must be set");
  expect(mxlite_predict_get_output(predictor, 0, &number, 24), "forward must be called before");
  expect(mxlite_predict_get_output(predictor, 0, &number, 4), "must be 24 bytes");
  expect(mxlite_predict_get_output(predictor, 1, &number, 4), "must be in [0, 1), got 1");
  expect(mxlite_predict_set_input(predictor, 0, kRows.data(), 39), "must be 40 bytes");
  expect(mxlite_predict_set_input(predictor, -1, kRows.data(), 40), "got -1");
  expect(mxlite_predict_set_input(predictor, 0, nullptr, 40), "must be an address, got null");
  expect(mxlite_predict_find_input(predictor, "dat", &index),
         "the name of an input must be one of data, softmax_label, got 'dat'");
  expect(mxlite_predict_find_input(predictor, nullptr, &index), "name must be an address");
  expect(mxlite_predict_forward(nullptr), "the handle must be one that was created");
  EXPECT_EQ(mxlite_predict_free(predictor), 0);
  EXPECT_EQ(mxlite_predict_free(nullptr), 0);
  expect(mxlite_predict_free(predictor), "the handle must be one that was created");
  expect(mxlite_predict_forward(predictor), "the handle must be one that was created");
}

TEST(Predict, ErrorsBelongToThreads) {
  EXPECT_EQ(mxlite_predict_forward(nullptr), -1);
  std::string other = "unchanged";
  std::thread([&] { other = mxlite_predict_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_HAS(mxlite_predict_error(), "mxlite_predict_forward");
}

TEST(Predict, DecodesImages) {
  const std::string image = content(std::string(MXLITE_TEST_DATA) + "/gradient.jpg");
  std::vector<float> plain(3 * 16 * 16), normal(plain);
  const float mean[] = {1, 2, 3}, std[] = {2, 4, 8};
  const auto decode = [&](size_t size, const float* m, const float* s, float* data) {
    return mxlite_predict_decode_image(image.data(), size, -1, 16, 16, m, s, data);
  };
  ASSERT_EQ(decode(image.size(), nullptr, nullptr, plain.data()), 0) << mxlite_predict_error();
  ASSERT_EQ(decode(image.size(), mean, std, normal.data()), 0);
  EXPECT_GT(plain[15], plain[0] + 40) << "red grows from left to right";
  for (size_t i = 0; i < plain.size(); ++i)
    EXPECT_NEAR(normal[i], (plain[i] - mean[i / 256]) / std[i / 256], 1e-4F);
  EXPECT_EQ(decode(100, nullptr, nullptr, plain.data()), -1);
  EXPECT_HAS(mxlite_predict_error(), "mxlite_predict_decode_image: the image");
}

TEST(Predict, WrapperThrows) {
  mxlite::Predictor network(kSymbol, kParams, {{"data", {2, 5}}});
  EXPECT_EQ(network.outputs()[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(network.inputs()[0].name, "data");
  network.set_input("data", std::vector<float>(kRows.begin(), kRows.end()));
  network.forward();
  expect_scores(network.output("softmax_output").data());
  EXPECT_THROW(network.set_input("data", std::vector<double>(10)), std::runtime_error);
  EXPECT_THROW(network.output(1), std::runtime_error);
  EXPECT_THROW(mxlite::Predictor("no-symbol.json", kParams, {}), std::runtime_error);
  EXPECT_HAS(mxlite_predict_error(), "'no-symbol.json'");
  EXPECT_THROW(mxlite::Predictor(kSymbol, "no.params", {}), std::runtime_error);
  EXPECT_HAS(mxlite_predict_error(), "no.params");
  const std::string params = content(kParams);
  const auto same = mxlite::Predictor::from_memory(content(kSymbol), params.data(), params.size(),
                                                   {{"data", {1, 5}}}, {"fc1_output"});
  EXPECT_EQ(same.share().outputs()[0].shape, (std::vector<int64_t>{1, 4}));
}

// -- MXNet's interface ---------------------------------------------------------------------------

class MXPred : public testing::Test {
 protected:
  const std::string symbol_ = content(kSymbol), params_ = content(kParams);
  const char* keys_[1] = {"data"};
  const mx_uint indptr_[2] = {0, 2}, shape_[2] = {2, 5}, row_[2] = {1, 5};
  const int size_ = static_cast<int>(params_.size());

  static void run(PredictorHandle handle) {
    mx_uint *shape = nullptr, ndim = 0;
    std::array<float, kScores.size()> scores{};
    ASSERT_EQ(MXPredSetInput(handle, "data", kRows.data(), kRows.size()), 0) << MXGetLastError();
    ASSERT_EQ(MXPredForward(handle), 0) << MXGetLastError();
    ASSERT_EQ(MXPredGetOutputShape(handle, 0, &shape, &ndim), 0);
    ASSERT_EQ(std::vector<mx_uint>(shape, shape + ndim), (std::vector<mx_uint>{2, 3}));
    ASSERT_EQ(MXPredGetOutput(handle, 0, scores.data(), scores.size()), 0);
    expect_scores(scores.data());
  }
};

TEST_F(MXPred, RunsReshapesAndShares) {
  PredictorHandle handle = nullptr, reshaped = nullptr;
  ASSERT_EQ(
      MXPredCreate(symbol_.c_str(), params_.data(), size_, 1, 0, 1, keys_, indptr_, row_, &handle),
      0);
  ASSERT_EQ(MXPredReshape(1, keys_, indptr_, shape_, handle, &reshaped), 0);
  run(reshaped);
  int left = 1, steps = 0, dtype = -1;
  for (; left > 0; ++steps) ASSERT_EQ(MXPredPartialForward(reshaped, steps, &left), 0);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(MXPredGetOutputType(reshaped, 0, &dtype), 0);
  EXPECT_EQ(dtype, 0);
  EXPECT_EQ(MXPredSetInput(reshaped, "data", kRows.data(), 9), -1);
  EXPECT_HAS(MXGetLastError(), "MXPredSetInput: the size of 'data' must be the 10 elements");
  for (PredictorHandle used : {handle, reshaped}) EXPECT_EQ(MXPredFree(used), 0);
  EXPECT_EQ(MXPredFree(handle), -1);

  std::array<PredictorHandle, 3> handles{};
  ASSERT_EQ(MXPredCreateMultiThread(symbol_.c_str(), params_.data(), size_, 1, 0, 1, keys_, indptr_,
                                    shape_, 3, handles.data()),
            0);
  std::vector<std::thread> threads;
  for (PredictorHandle used : handles)
    threads.emplace_back([used] {
      for (int i = 0; i < 20; ++i) run(used);
    });
  for (std::thread& thread : threads) thread.join();
  for (PredictorHandle used : handles) EXPECT_EQ(MXPredFree(used), 0);
}

TEST_F(MXPred, TakesTypesAndInnerNodes) {
  PredictorHandle handle = nullptr;
  const char* const inner[] = {"fc1"};
  mx_uint *shape = nullptr, ndim = 0;
  ASSERT_EQ(MXPredCreatePartialOut(symbol_.c_str(), params_.data(), size_, 1, 0, 1, keys_, indptr_,
                                   shape_, 1, const_cast<const char**>(inner), &handle),
            0);
  EXPECT_EQ(MXPredGetOutputShape(handle, 0, &shape, &ndim), 0);
  EXPECT_EQ(std::vector<mx_uint>(shape, shape + ndim), (std::vector<mx_uint>{2, 4}));
  EXPECT_EQ(MXPredFree(handle), 0);
  const int float32 = 0;
  ASSERT_EQ(MXPredCreateEx(symbol_.c_str(), params_.data(), size_, 1, 0, 1, keys_, indptr_, shape_,
                           1, keys_, &float32, &handle),
            0);
  run(handle);
  EXPECT_EQ(MXPredFree(handle), 0);
  EXPECT_EQ(
      MXPredCreate(symbol_.c_str(), params_.data(), -1, 1, 0, 1, keys_, indptr_, shape_, &handle),
      -1);
  EXPECT_HAS(MXGetLastError(), "MXPredCreate: param_size must be at least 0, got -1");
}

using Shown = std::vector<std::pair<std::string, std::vector<float>>>;

void note(const char* name, NDArrayHandle array, void* all) {
  mx_uint ndim = 0;
  const mx_uint* shape = nullptr;
  int dtype = -1;
  EXPECT_EQ(MXNDArrayGetShape(array, &ndim, &shape), 0);
  EXPECT_EQ(MXNDArrayGetDType(array, &dtype), 0);
  EXPECT_EQ(dtype, 0);
  size_t size = 1;
  for (mx_uint i = 0; i < ndim; ++i) size *= shape[i];
  std::vector<float> values(size);
  EXPECT_EQ(MXNDArraySyncCopyToCPU(array, values.data(), size + 1), -1);
  EXPECT_EQ(MXNDArraySyncCopyToCPU(array, values.data(), size), 0);
  EXPECT_EQ(MXNDArrayFree(array), 0);
  EXPECT_EQ(MXNDArrayFree(array), -1);
  static_cast<Shown*>(all)->emplace_back(name, std::move(values));
}

TEST_F(MXPred, ShowsInnerValues) {
  PredictorHandle handle = nullptr;
  ASSERT_EQ(MXPredCreate(symbol_.c_str(), params_.data(), size_, 1, 0, 1, keys_, indptr_, shape_,
                         &handle),
            0);
  Shown outputs, all;
  ASSERT_EQ(MXPredSetMonitorCallback(handle, note, &outputs, false), 0);
  run(handle);
  ASSERT_FALSE(outputs.empty());
  EXPECT_EQ(outputs.front().first, "fc1_output");
  EXPECT_EQ(outputs.back().first, "softmax_output");
  expect_scores(outputs.back().second.data());
  ASSERT_EQ(MXPredSetMonitorCallback(handle, note, &all, true), 0);
  run(handle);
  EXPECT_EQ(all[0].first, "data");
  EXPECT_EQ(all[1].first, "fc1_data");
  EXPECT_EQ(all[1].second, std::vector<float>(kRows.begin(), kRows.end()));
  const size_t count = all.size();
  ASSERT_EQ(MXPredSetMonitorCallback(handle, nullptr, nullptr, false), 0);
  run(handle);
  EXPECT_EQ(all.size(), count);
  EXPECT_EQ(MXPredFree(handle), 0);
  EXPECT_EQ(MXPredSetMonitorCallback(handle, note, &all, false), -1);
  EXPECT_HAS(MXGetLastError(), "MXPredSetMonitorCallback: the handle must be");
}

TEST(MXNDList, ReadsArrays) {
  const std::string bytes = content(kParams);
  NDListHandle list = nullptr;
  mx_uint count = 0, ndim = 0;
  const char* key = nullptr;
  const float* data = nullptr;
  const mx_uint* shape = nullptr;
  ASSERT_EQ(MXNDListCreate(bytes.data(), static_cast<int>(bytes.size()), &list, &count), 0);
  ASSERT_GT(count, 1u);
  bool is_found = false;
  for (mx_uint i = 0; i < count; ++i) {
    ASSERT_EQ(MXNDListGet(list, i, &key, &data, &shape, &ndim), 0);
    if (std::string(key) != "arg:fc1_weight") continue;
    is_found = true;
    EXPECT_EQ(std::vector<mx_uint>(shape, shape + ndim), (std::vector<mx_uint>{4, 5}));
    EXPECT_EQ(data[0] * 8, std::round(data[0] * 8)) << "weights are multiples of 1/8";
  }
  EXPECT_TRUE(is_found);
  EXPECT_EQ(MXNDListGet(list, count, &key, &data, &shape, &ndim), -1);
  EXPECT_EQ(MXNDListFree(list), 0);
  EXPECT_EQ(MXNDListFree(list), -1);
  EXPECT_EQ(MXNDListCreate(bytes.data(), 9, &list, &count), -1);
  EXPECT_HAS(MXGetLastError(), "MXNDListCreate: ");
}

}  // namespace
