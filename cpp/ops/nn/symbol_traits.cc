// Names, types and backward shape rules of layers in symbols.
#include "cpp/ops/symbol_traits.h"

#include "cpp/base/checked_math.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/embedding.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/nn/leaky_relu.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/nn/upsampling.h"

namespace mxlite {
namespace {

auto always(int count) {
  return [count](const void*, int) { return count; };
}

// Statistics and factors of half-precision data are float32.
void norm_types(const void*, KnownTypes in, KnownTypes out) {
  KnownType known;
  for (const KnownType& type : in)
    if (!known) known = type;
  if (!known && !out.empty()) known = out[0];
  if (!known) return;
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i]) in[i] = i > 0 && is_half(*known) ? DType::kFloat32 : *known;
}

void length_types(const void*, KnownTypes in, KnownTypes) {
  if (in.size() > 1 && !in[1]) in[1] = DType::kInt32;
}

void refine_fully_connected(const FullyConnectedParams& p, PartialShapes& shapes) {
  const Shape data = shapes.input(0), weight = shapes.input(1), out = shapes.output(0);
  if (p.flatten) {
    int64_t rows = out.ndim() > 0 ? out[0] : -1;
    if (data.ndim() > 0 && data[0] != -1) rows = data[0];
    shapes.refine_output(0, Shape{rows, p.num_hidden});
    if (rows == -1) return;
    if (data.ndim() > 0) {
      Shape whole = data;
      whole[0] = rows;
      shapes.refine_input(0, whole);
    } else if (data.ndim() < 0 && weight.ndim() == 2) {
      shapes.refine_input(0, Shape{rows, weight[1]});
    }
  } else if (data.ndim() > 0) {
    Shape result = data;
    result[result.ndim() - 1] = p.num_hidden;
    shapes.refine_output(0, result);
    if (out.ndim() != data.ndim()) return;
    Shape before = out;
    before[before.ndim() - 1] = data.back();
    shapes.refine_input(0, before);
  }
}

// The batch size stays; so do the extents of data under a convolution of stride 1, channels first.
void refine_window(PartialShapes& shapes, const ConvolutionParams* p) {
  const Shape data = shapes.input(0), out = shapes.output(0);
  if (data.ndim() < 2 || out.ndim() != data.ndim()) return;
  Shape before = data;
  before[0] = out[0];
  if (p && !p->channels_last() && p->kernel.ndim() == data.ndim() - 2) {
    const SpatialWindow window = p->window();
    for (int axis = 2, at = 5 - data.ndim(); axis < data.ndim(); ++axis, ++at) {
      if (out[axis] == -1 || window.stride[at] != 1) continue;
      const int64_t reach = checked_mul(window.dilate[at], window.kernel[at] - 1);
      const int64_t extent =
          checked_add(checked_add(out[axis], reach), -checked_mul(2, window.pad[at]));
      if (extent > 0) before[axis] = extent;
    }
  }
  shapes.refine_input(0, before);
}

}  // namespace

void add_layer_traits(SymbolTraitsTable& table) {
  for (const char* name :
       {"BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU", "InstanceNorm"})
    table[name].output_names = {"output", "mean", "var"};
  for (const char* name : {"LayerNorm", "GroupNorm"})
    table[name].output_names = {"output", "mean", "std"};
  for (const char* name : {"LayerNorm", "GroupNorm", "InstanceNorm", "_contrib_SyncBatchNorm"})
    table[name].total_outputs = always(3);
  for (const char* name : {"BatchNorm", "_contrib_SyncBatchNorm"}) table[name].types = norm_types;
  for (const char* name : {"BatchNorm", "_contrib_SyncBatchNorm"})
    table[name].input_init = {{"moving_mean", R"(["zero", {}])"}, {"moving_var", R"(["one", {}])"}};
  table["UpSampling"].input_init = {{"weight", R"(["bilinear", {}])"}};
  table["LeakyReLU"].input_init = {{"gamma", R"(["Constant", {"value": 0.25}])"}};
  table["RNN"].output_names = {"output", "state_output", "statecell_output"};
  table["RNN"].total_outputs = [](const void*, int visible) { return visible; };
  for (const char* name : {"Dropout", "IdentityAttachKLSparseReg", "L2Normalization", "LRN",
                           "LeakyReLU", "Pooling", "SoftmaxOutput"})
    table[name].output_names = {"output"};
  for (const char* name : {"Dropout", "L2Normalization", "LRN", "LeakyReLU", "Pooling",
                           "log_softmax", "softmax", "softmin"})
    table[name].names_single_input = true;
  for (const char* name : {"Dropout", "L2Normalization", "LRN", "CTCLoss"})
    table[name].total_outputs = always(2);
  table["IdentityAttachKLSparseReg"].total_outputs = always(1);
  table["Pooling"].total_outputs = [](const void* p, int) {
    return static_cast<const PoolingParams*>(p)->pool_type == PoolType::kMax ? 2 : 1;
  };
  table["LeakyReLU"].total_outputs = [](const void* p, int) {
    return static_cast<const LeakyReLUParams*>(p)->act_type == LeakyReLUType::kRrelu ? 2 : 1;
  };
  table["UpSampling"].total_outputs = always(1);
  table["UpSampling"].count_attribute = "num_args";
  table["UpSampling"].named_inputs = [](const void* p) {
    using Names = std::vector<std::string>;
    const auto type = static_cast<const UpSamplingParams*>(p)->sample_type;
    return type == SampleType::kBilinear ? Names{"data", "weight"} : Names{};
  };

  for (const char* name : {"BatchNorm", "_contrib_SyncBatchNorm", "LayerNorm", "InstanceNorm",
                           "GroupNorm", "LeakyReLU", "L2Normalization", "LRN", "SoftmaxOutput",
                           "SVMOutput", "IdentityAttachKLSparseReg", "Dropout"})
    table[name].refine = refine_like_first;
  for (const char* name : {"Activation", "SoftmaxActivation", "LinearRegressionOutput",
                           "MAERegressionOutput", "LogisticRegressionOutput", "MakeLoss"})
    table[name].refine = refine_all_alike;
  for (const char* name : {"softmax", "log_softmax", "softmin"}) {
    SymbolTraits& traits = table[name];
    traits.refine = refine_like_first;  // lengths, the second input, have another shape
    traits.types = length_types;
    traits.free_types = {1};
    traits.typed_by_parameter = traits.dtype_keeps = true;
  }
  table["CTCLoss"].free_types = {1, 2, 3};

  SymbolTraits& embedding = table["Embedding"];
  embedding.completes_blindly = embedding.typed_by_parameter = true;
  embedding.free_types = {0};
  embedding.set_types<EmbeddingParams>([](const EmbeddingParams& p, KnownTypes in, KnownTypes) {
    if (in.size() > 1 && !in[1]) in[1] = p.dtype;
  });
  table["_contrib_SparseEmbedding"] = embedding;
  table["_contrib_SparseEmbedding"].keeps_alias = true;
  table["FullyConnected"].set_refine<FullyConnectedParams>(refine_fully_connected);
  table["Convolution"].set_refine<ConvolutionParams>(
      [](const ConvolutionParams& p, PartialShapes& shapes) { refine_window(shapes, &p); });
  for (const char* name : {"Deconvolution", "Pooling"})
    table[name].refine = [](const void*, PartialShapes& shapes) { refine_window(shapes, nullptr); };
}

}  // namespace mxlite
