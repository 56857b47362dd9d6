// Replaces layers by operators on int8. Adds operators that quantize weights. Their results become
// parameters in the pass fold-parameters. Without calibration, fused layers return float32.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "cpp/graph/rewrite.h"
#include "cpp/ops/nn/activation.h"
#include "cpp/ops/nn/batch_norm.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/fully_connected.h"
#include "cpp/ops/nn/leaky_relu.h"
#include "cpp/ops/nn/pooling.h"
#include "cpp/ops/pointwise/params.h"
#include "cpp/symbol/listing.h"
#include "cpp/symbol/passes/added_calls.h"
#include "cpp/symbol/passes/passes.h"

namespace mxlite::symbol {
namespace {

using graph::ValueId;

// Order of the inputs of an int8 layer.
enum class Inputs : uint8_t { kOne, kPair, kAll, kTable, kStatistics };

struct LayerForm {
  const char* op;         // the layer on floats
  const char* quantized;  // the layer on int8
  Inputs inputs;
};
constexpr std::array kLayers = {
    LayerForm{"Pooling", "_contrib_quantized_pooling", Inputs::kOne},
    LayerForm{"Flatten", "_contrib_quantized_flatten", Inputs::kOne},
    LayerForm{"Activation", "_contrib_quantized_act", Inputs::kOne},
    LayerForm{"relu", "_contrib_quantized_act", Inputs::kOne},
    LayerForm{"Concat", "_contrib_quantized_concat", Inputs::kAll},
    LayerForm{"elemwise_add", "_contrib_quantized_elemwise_add", Inputs::kPair},
    LayerForm{"elemwise_mul", "_contrib_quantized_elemwise_mul", Inputs::kPair},
    LayerForm{"Embedding", "_contrib_quantized_embedding", Inputs::kTable},
    LayerForm{"BatchNorm", "_contrib_quantized_batch_norm", Inputs::kStatistics},
};

const LayerForm* find_form(const graph::Node& node) {
  if (node.op())
    for (const LayerForm& form : kLayers)
      if (node.op()->name == form.op) return &form;
  return nullptr;
}

bool is_relu(const graph::Node& node) {
  return node.op() &&
         (node.op()->name == "relu" ||
          (node.op()->name == "Activation" &&
           graph::params_of<ActivationParams>(node).act_type == ActivationType::kRelu));
}

bool is_gelu(const graph::Node& node) {
  return node.op() && node.op()->name == "LeakyReLU" &&
         graph::params_of<LeakyReLUParams>(node).act_type == LeakyReLUType::kGelu;
}

// Returns the upper bound of a clip that is a bounded relu (relu6), or nullopt for other nodes.
std::optional<double> bound_of_relu(const graph::Node& node) {
  if (!node.op() || node.op()->name != "clip") return std::nullopt;
  const auto& p = graph::params_of<ClipParams>(node);
  const auto low = static_cast<double>(p.a_min), high = static_cast<double>(p.a_max);
  if (low != 0 || !(high > 0)) return std::nullopt;
  return high;
}

// Removes Dropout and copies. They have no effect in inference, and they separate layers that can
// be fused.
graph::Graph without_identities(const graph::Graph& graph) {
  graph::Rewrite rewrite(graph);
  for (int32_t id = 0; id < static_cast<int32_t>(graph.nodes.size()); ++id) {
    const graph::Node& node = graph.node(id);
    const bool is_identity = node.op() && node.inputs.size() == 1 && node.outputs.size() == 1 &&
                             node.op()->is_identity &&
                             (node.op()->name == "Dropout" || node.op()->name == "_copy") &&
                             node.op()->is_identity(node.params().get(), /*training=*/false);
    if (is_identity)
      rewrite.replace({id, 0}, rewrite.map(node.inputs[0]));
    else
      rewrite.keep(id);
  }
  return rewrite.finish();
}

// Ids of a convolution or linear layer and of the nodes that are fused into this layer. -1 means
// that a node does not exist.
struct Chain {
  int32_t head = -1, norm = -1, sum = -1, act = -1;
  ValueId other;  // the other operand of the sum
};

struct Quantized {
  ValueId data, low, high;
};

class Quantizer {
 public:
  Quantizer(const graph::Graph& graph, const PassOptions& options)
      : old_(graph),
        options_(options),
        how_(*options.quantization),
        rewrite_(graph),
        uses_(graph::count_uses(graph)) {
    for (const graph::Node& node : graph.nodes) names_.insert(node.name().text);
    find_chains();
    find_layers();
  }

  graph::Graph run() {
    for (int32_t id = 0; id < static_cast<int32_t>(old_.nodes.size()); ++id) {
      const graph::Node& node = old_.node(id);
      if (is_absorbed_[static_cast<size_t>(id)]) continue;
      if (const auto chain = chains_.find(id); chain != chains_.end())
        add_product(id, chain->second);
      else if (layers_.contains(id))
        add_layer(id, *find_form(node));
      else {
        for (const ValueId v : node.inputs) float_of(v);
        rewrite_.keep(id);
        for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
          has_float_.insert({id, i});
      }
    }
    for (const ValueId v : old_.outputs) float_of(v);
    return rewrite_.finish();
  }

 private:
  bool is_parameter(ValueId v) const {
    const graph::Node& node = old_.node(v);
    return !node.op() && how_.parameters.contains(node.name().text);
  }
  bool are_parameters(const graph::Node& node, size_t first) const {
    for (size_t i = first; i < node.inputs.size(); ++i)
      if (!is_parameter(node.inputs[i])) return false;
    return true;
  }
  bool is_kept(const graph::Node& node) const {
    return options_.kept.contains(node.name().text) || how_.without.contains(node.op()->name) ||
           how_.without.contains(node.call->file_op);
  }
  int uses(ValueId v) const {
    return uses_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)];
  }

  // ---- selection of layers --------------------------------------------------------------------

  bool is_product(const graph::Node& node) const {
    if (node.op()->name == "Convolution") {
      const auto& p = graph::params_of<ConvolutionParams>(node);
      return !p.channels_last() && are_parameters(node, 1);
    }
    return node.op()->name == "FullyConnected" && are_parameters(node, 1);
  }

  // Appends node `id` to the chain that ends in `data` if `accepts(chain)` returns true. `accepts`
  // also stores the node in the chain.
  bool extend(int32_t id, ValueId data, auto&& accepts) {
    const auto found = chains_.find(data.node);
    if (found == chains_.end() || data.output != 0 || uses(data) != 1 || is_kept(old_.node(id)))
      return false;
    Chain chain = found->second;
    if (!accepts(chain)) return false;
    chains_.erase(found);
    is_absorbed_[static_cast<size_t>(data.node)] = 1;
    chains_[id] = chain;
    return true;
  }

  bool is_convolution(const Chain& chain) const {
    return old_.node(chain.head).op()->name == "Convolution";
  }

  bool takes_norm(const Chain& chain, const graph::Node& norm) const {
    const auto& p = graph::params_of<BatchNormParams>(norm);
    return is_convolution(chain) && p.axis == 1 && !p.output_mean_var && chain.norm < 0 &&
           chain.sum < 0 && chain.act < 0 && are_parameters(norm, 1);
  }

  void find_chains() {
    is_absorbed_.resize(old_.nodes.size());
    for (int32_t id = 0; id < static_cast<int32_t>(old_.nodes.size()); ++id) {
      const graph::Node& node = old_.node(id);
      if (!node.op()) continue;
      if (is_product(node) && !is_kept(node)) chains_[id] = {.head = id, .other = {}};
      if (node.op()->name == "BatchNorm")
        extend(id, node.inputs[0], [&](Chain& chain) {
          if (takes_norm(chain, node)) chain.norm = id;
          return chain.norm == id;
        });
      if (is_relu(node) || is_gelu(node) || bound_of_relu(node))
        extend(id, node.inputs[0], [&](Chain& chain) {
          if (chain.act < 0) chain.act = id;
          return chain.act == id;
        });
      if (node.op()->name == "elemwise_add") find_sum(id, node);
    }
  }

  // Prefers the operand that is computed later, because the other operand is already available at
  // that point.
  void find_sum(int32_t id, const graph::Node& node) {
    const size_t later = node.inputs[1].node > node.inputs[0].node ? 1 : 0;
    for (const size_t i : {later, 1 - later}) {
      const ValueId other = node.inputs[1 - i];
      const bool found = extend(id, node.inputs[i], [&](Chain& chain) {
        if (chain.sum >= 0 || chain.act >= 0) return false;
        chain.sum = id;
        chain.other = other;
        return true;
      });
      if (found) return;
    }
  }

  bool has_int8_form(const graph::Node& node) const {
    const LayerForm* form = node.op() ? find_form(node) : nullptr;
    if (!form || is_kept(node)) return false;
    const std::string& op = node.op()->name;
    if (op == "Pooling") {
      const PoolType type = graph::params_of<PoolingParams>(node).pool_type;
      return type == PoolType::kMax || type == PoolType::kAvg;
    }
    if (op == "Activation") return is_relu(node);
    if (op == "Embedding") return is_parameter(node.inputs[1]);
    if (op == "BatchNorm")
      return how_.calibrated && !graph::params_of<BatchNormParams>(node).output_mean_var &&
             are_parameters(node, 1);
    return true;
  }

  size_t data_inputs(const graph::Node& node) const {
    const Inputs inputs = find_form(node)->inputs;
    return inputs == Inputs::kAll ? node.inputs.size() : inputs == Inputs::kPair ? 2 : 1;
  }

  void find_layers() {
    const auto count = static_cast<int32_t>(old_.nodes.size());
    std::vector<std::vector<int32_t>> users(old_.nodes.size());
    for (int32_t id = 0; id < count; ++id) {
      const graph::Node& node = old_.node(id);
      for (const ValueId v : node.inputs) users[static_cast<size_t>(v.node)].push_back(id);
      if (!chains_.contains(id) && !is_absorbed_[static_cast<size_t>(id)] && has_int8_form(node))
        layers_.insert(id);
    }
    if (!how_.smart) return;
    std::set<int32_t> outputs;
    for (const ValueId v : old_.outputs) outputs.insert(v.node);
    const auto is_int8 = [&](int32_t id) {
      return chains_.contains(id) || layers_.contains(id) || is_absorbed_[static_cast<size_t>(id)];
    };
    const auto stays = [&](int32_t id) {
      const graph::Node& node = old_.node(id);
      bool has_int8_data = find_form(node)->inputs == Inputs::kTable;
      for (size_t i = 0; !has_int8_data && i < data_inputs(node); ++i)
        has_int8_data |= is_int8(node.inputs[i].node);
      const auto& readers = users[static_cast<size_t>(id)];
      return has_int8_data && !outputs.contains(id) && std::ranges::all_of(readers, is_int8);
    };
    for (bool changed = true; changed;)
      changed = std::erase_if(layers_, [&](int32_t id) { return !stays(id); }) > 0;
  }

  // ---- values ---------------------------------------------------------------------------------

  ValueId add(const char* op, std::vector<ValueId> inputs, Attributes attrs,
              const std::string& name) {
    return add_call(rewrite_.graph(), named_call(op, std::move(attrs), free_name(names_, name)),
                    std::move(inputs));
  }

  // Returns the new value in float32. If only an int8 value exists, dequantizes it.
  ValueId float_of(ValueId old) {
    const std::pair key{old.node, old.output};
    if (has_float_.insert(key).second) {
      const Quantized& q = quantized_.at(key);
      rewrite_.replace(old, add("_contrib_dequantize", {q.data, q.low, q.high}, {},
                                old_.node(old).name().text + "_dequantize"));
    }
    return rewrite_.map(old);
  }

  Quantized quantized_of(ValueId old) {
    const std::pair key{old.node, old.output};
    if (const auto found = quantized_.find(key); found != quantized_.end()) return found->second;
    const std::string name = value_name(old_, old);
    const ValueId v = add("_contrib_quantize_v2", {float_of(old)},
                          {{"out_type", how_.dtype}, {kCalibrationName, name}}, name + "_quantize");
    return quantized_[key] = {v, {v.node, 1}, {v.node, 2}};
  }

  // ---- weights --------------------------------------------------------------------------------

  // Adds an operator that computes an intermediate value of quantized weights.
  ValueId compute(const char* op, std::vector<ValueId> inputs, Attributes attrs = {}) {
    return add(op, std::move(inputs), std::move(attrs), weight_name_ + "_" + op);
  }
  ValueId offline(const char* op, std::vector<ValueId> inputs, Attributes attrs,
                  const std::string& name) {
    attrs.emplace(kOffline, std::string(1, '1'));
    return add(op, std::move(inputs), std::move(attrs), name);
  }

  ValueId magnitude_of(ValueId weight, const std::string& axes) {
    const ValueId size = compute("abs", {weight});
    const ValueId most =
        compute("max", {size}, axes.empty() ? Attributes{} : Attributes{{"axis", axes}});
    constexpr double kLeast = 1e-30;  // keeps the scale of a filter of zeros positive
    return compute("_maximum_scalar", {most}, {{"scalar", number_text(kLeast)}});
  }

  ValueId to_int8(ValueId scaled, const std::string& name) {
    const ValueId whole = compute("rint", {scaled});
    const ValueId clipped = compute("clip", {whole}, {{"a_min", "-127"}, {"a_max", "127"}});
    return offline("Cast", {clipped}, {{"dtype", "int8"}}, name);
  }

  struct Weights {
    ValueId weight, scale;
    std::optional<ValueId> bias;
  };

  // Quantizes the weights of a product after folding BatchNorm into them.
  Weights weights_of(const Chain& chain) {
    const graph::Node& head = old_.node(chain.head);
    const bool is_conv = is_convolution(chain);
    const int spatial = is_conv ? graph::params_of<ConvolutionParams>(head).kernel.ndim() : 0;
    const int64_t outputs = is_conv ? graph::params_of<ConvolutionParams>(head).num_filter
                                    : graph::params_of<FullyConnectedParams>(head).num_hidden;
    std::string axes = "(1", column = "(-1, 1";
    for (int i = 0; i < spatial; ++i) {
      axes += str(", ", i + 2);
      column += ", 1";
    }
    axes += is_conv ? ")" : ",)";
    column += ")";
    weight_name_ = old_.node(head.inputs[1]).name().text + "_quantize";
    ValueId weight = float_of(head.inputs[1]);
    std::optional<ValueId> bias;
    if (head.inputs.size() > 2) bias = float_of(head.inputs[2]);
    if (chain.norm >= 0) {
      const graph::Node& norm = old_.node(chain.norm);
      const auto& p = graph::params_of<BatchNormParams>(norm);
      std::array<ValueId, 4> s;  // gamma, beta, mean, variance
      for (size_t i = 0; i < 4; ++i) s[i] = float_of(norm.inputs[i + 1]);
      ValueId factor =
          compute("rsqrt", {compute("_plus_scalar", {s[3]}, {{"scalar", number_text(p.eps)}})});
      if (!p.fix_gamma) factor = compute("broadcast_mul", {s[0], factor});
      weight =
          compute("broadcast_mul", {weight, compute("Reshape", {factor}, {{"shape", column}})});
      if (bias) s[2] = compute("broadcast_sub", {s[2], *bias});
      bias = offline("broadcast_sub", {s[1], compute("broadcast_mul", {s[2], factor})}, {},
                     head.name().text + "_bias_folded");
    }
    constexpr double kUnits = 127;
    const bool by_channel = is_conv || how_.channel_wise;
    ValueId most = magnitude_of(weight, by_channel ? axes : "");
    if (!by_channel) most = compute("broadcast_to", {most}, {{"shape", str('(', outputs, ",)")}});
    const ValueId scale =
        offline("_div_scalar", {most}, {{"scalar", number_text(kUnits)}}, weight_name_ + "_scale");
    const ValueId units =
        compute("broadcast_div", {weight, compute("Reshape", {scale}, {{"shape", column}})});
    return {to_int8(units, weight_name_), scale, bias};
  }

  // Quantizes a table with one scale. The bounds of its range become parameters.
  Quantized table_of(ValueId old) {
    weight_name_ = old_.node(old).name().text + "_quantize";
    const ValueId table = float_of(old), most = magnitude_of(table, "");
    constexpr double kUnits = 127.5;  // as in the conversions of activations
    const ValueId unit = compute("_div_scalar", {most}, {{"scalar", number_text(kUnits)}});
    const ValueId data = to_int8(compute("broadcast_div", {table, unit}), weight_name_);
    return {data, offline("negative", {most}, {}, weight_name_ + "_min"),
            offline("_mul_scalar", {most}, {{"scalar", "1"}}, weight_name_ + "_max")};
  }

  // ---- layers ---------------------------------------------------------------------------------

  // Returns the attributes of a call that are also parameters of another operator.
  static Attributes params_for(const char* op, const Call& call) {
    const OpSchema& schema = ops().get(op);
    Attributes attrs;
    for (const auto& [key, text] : call.attrs)
      if (schema.param_index(key) >= 0) attrs[key] = text;
    return attrs;
  }

  void add_product(int32_t id, const Chain& chain) {
    const graph::Node& head = old_.node(chain.head);
    const bool is_conv = is_convolution(chain);
    const char* op = is_conv ? "_sg_mkldnn_conv" : "_sg_mkldnn_fully_connected";
    std::string name = is_conv ? "quantized_sg_mkldnn_conv" : "quantized_sg_mkldnn_fully_connected";
    if (chain.norm >= 0) name += "_bn";
    if (chain.sum >= 0) name += "_add";
    if (chain.act >= 0) name += is_conv ? "_act" : "_eltwise";
    name += str('_', is_conv ? num_convolutions_++ : num_linear_++);

    const Quantized data = quantized_of(head.inputs[0]);
    const Weights weights = weights_of(chain);
    Attributes attrs = params_for(op, *head.call);
    attrs["out_type"] = how_.dtype;
    attrs["no_bias"] = weights.bias ? "False" : "True";
    std::vector<ValueId> inputs = {data.data, weights.weight};
    if (weights.bias) inputs.push_back(*weights.bias);
    for (const ValueId v : {weights.scale, data.low, data.high}) inputs.push_back(v);
    if (chain.sum >= 0) {
      attrs["with_sum"] = "True";
      inputs.push_back(is_conv ? sum_operand(chain.other) : float_of(chain.other));
    }
    if (chain.act >= 0) {
      attrs["with_act"] = "True";
      if (const auto bound = bound_of_relu(old_.node(chain.act)))
        attrs["act_max"] = number_text(*bound);
      if (is_gelu(old_.node(chain.act))) attrs["act_type"] = "gelu";
    }
    rewrite_.replace({id, 0}, add(op, std::move(inputs), std::move(attrs), name));
    has_float_.insert({id, 0});
    // The other outputs of BatchNorm have no readers.
    for (int32_t i = 1; i < static_cast<int32_t>(old_.node(id).outputs.size()); ++i)
      rewrite_.replace({id, i}, rewrite_.map(ValueId{id, 0}));
  }

  // Returns the value that a convolution adds. If the graph will be calibrated, dequantizes the
  // value, because the pass `calibrate` lets the sum read the int8 input of this node. Sums of
  // linear layers read and return float32, because normalizations that read them need more
  // precision.
  ValueId sum_operand(ValueId old) {
    if (!how_.calibrated) return float_of(old);
    const Quantized q = quantized_of(old);
    return add("_contrib_dequantize", {q.data, q.low, q.high}, {},
               old_.node(old).name().text + "_dequantize");
  }

  void add_layer(int32_t id, const LayerForm& form) {
    const graph::Node& node = old_.node(id);
    const std::string& own = node.name().text;
    Attributes attrs = params_for(form.quantized, *node.call);
    if (node.op()->name == "relu") attrs["act_type"] = "relu";
    if (form.inputs == Inputs::kStatistics) attrs[kCalibrationName] = value_name(old_, {id, 0});
    std::vector<Quantized> data;
    if (form.inputs == Inputs::kTable)
      data = {table_of(node.inputs[1])};
    else
      for (size_t i = 0; i < data_inputs(node); ++i) data.push_back(quantized_of(node.inputs[i]));

    std::vector<ValueId> inputs;
    if (form.inputs == Inputs::kTable) inputs.push_back(float_of(node.inputs[0]));
    for (const Quantized& q : data) inputs.push_back(q.data);
    if (form.inputs == Inputs::kStatistics)
      for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(float_of(node.inputs[i]));
    for (const Quantized& q : data)
      for (const ValueId v : {q.low, q.high}) inputs.push_back(v);
    if (form.inputs == Inputs::kAll) attrs["num_args"] = std::to_string(inputs.size());
    const bool is_product = node.op()->name == "elemwise_mul";
    if (is_product) attrs["enable_float_output"] = "True";
    ValueId v = add(form.quantized, std::move(inputs), std::move(attrs), "quantized_" + own);
    if (is_product) {
      rewrite_.replace({id, 0}, v);
      has_float_.insert({id, 0});
      return;
    }
    if (node.op()->name == "elemwise_add")
      v = add("_contrib_requantize", {v, {v.node, 1}, {v.node, 2}},
              {{"out_type", "int8"}, {kCalibrationName, value_name(old_, {id, 0})}},
              "requantize_" + own);
    quantized_[{id, 0}] = {v, {v.node, 1}, {v.node, 2}};
  }

  const graph::Graph& old_;
  const PassOptions& options_;
  const Quantization& how_;
  graph::Rewrite rewrite_;
  std::vector<std::vector<int>> uses_;
  std::map<int32_t, Chain> chains_;  // the key is the last node
  std::vector<uint8_t> is_absorbed_;
  std::set<int32_t> layers_;  // nodes other than products that read int8
  std::set<std::string> names_;
  std::set<std::pair<int32_t, int32_t>> has_float_;  // old values whose new value is known
  std::map<std::pair<int32_t, int32_t>, Quantized> quantized_;  // the key is the old value
  std::string weight_name_;
  int num_convolutions_ = 0, num_linear_ = 0;
};

}  // namespace

graph::Graph quantize_layers(const graph::Graph& graph, const PassOptions& options) {
  MX_CHECK(options.quantization, "quantize-layers: quantization must be given, got None");
  return Quantizer(without_identities(graph), options).run();
}

}  // namespace mxlite::symbol
