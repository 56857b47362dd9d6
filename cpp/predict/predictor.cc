#include "cpp/predict/predictor.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/base/suggest.h"
#include "cpp/core/accelerator.h"
#include "cpp/ndarray/limits.h"
#include "cpp/ndarray/transfer_memory.h"
#include "cpp/symbol/compose.h"
#include "cpp/symbol/files.h"
#include "cpp/symbol/run.h"

namespace mxlite::predict {
namespace {

bool on_gpu(Device device) { return device.type == DeviceType::kCUDA; }

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// Returns the index of the name. Throws a value error that lists the names.
size_t check_name(const std::vector<std::string>& names, const std::string& name,
                  const char* what) {
  const auto found = std::ranges::find(names, name);
  MX_CHECK(found != names.end(), "the name of an ", what, " must be one of ", list_of(names),
           ", got '", name, "'");
  return static_cast<size_t>(found - names.begin());
}

std::string without_prefix(const std::string& name) {
  return name.starts_with("arg:") || name.starts_with("aux:") ? name.substr(4) : name;
}

symbol::NodeOutput find_output(const std::vector<symbol::NodeRef>& nodes, const std::string& name) {
  std::vector<std::string> known;
  for (const symbol::NodeRef& node : nodes)
    for (int i = 0; i < node->num_outputs(); ++i) {
      known.push_back(node->output_name(i));
      if (known.back() == name) return {node, i};
    }
  fail(ErrorKind::kValue, "the output must be a value of the network, got '", name, "'",
       did_you_mean(name, known));
}

// Returns the names of variables that only losses use, as labels.
std::set<std::string> labels(const std::vector<symbol::NodeRef>& nodes) {
  std::set<std::string> found, others;
  for (const symbol::NodeRef& node : nodes)
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const bool is_label = i > 0 && !node->call->host() && node->call->op->starts_gradient;
      (is_label ? found : others).insert(node->inputs[i].node->name());
    }
  std::erase_if(found, [&](const std::string& name) { return others.contains(name); });
  return found;
}

symbol::Inference inferred(const Network& network, const std::vector<GivenInput>& given) {
  symbol::Inference::Shapes shapes;
  symbol::Inference::Types types;
  for (const auto& [name, array] : network.parameters) {
    shapes[name] = array->shape();
    types[name] = array->dtype();
  }
  std::vector<std::string> open;
  for (const symbol::NodeRef& node : symbol::topological_order(network.heads))
    if (node->is_variable() && !shapes.contains(node->name())) open.push_back(node->name());
  for (const GivenInput& input : given) {
    check_name(open, input.name, "input");
    for (const int64_t extent : input.shape)
      MX_CHECK_SHAPE(extent > 0, "the shape of input '", input.name,
                     "' must have extents of at least 1, got ", input.shape);
    check_array_size({input.shape, input.dtype.value_or(DType::kFloat32)});
    shapes[input.name] = input.shape;
    if (input.dtype) types[input.name] = *input.dtype;
  }
  symbol::Inference inference(network.heads, shapes, types, symbol::unknown_extent());
  inference.run_types(DType::kFloat32);
  inference.run_shapes();
  return inference;
}

void check_size(const Value& value, size_t bytes, const char* what) {
  MX_CHECK_SHAPE(bytes == value.spec.bytes(), "the size of ", what, " '", value.name, "' must be ",
                 value.spec.bytes(), " bytes for shape ", value.spec.shape, " of ",
                 value.spec.dtype, ", got ", bytes);
}

}  // namespace

Value value_of(std::string name, const TensorSpec& spec) {
  std::vector<uint32_t> extents;
  for (const int64_t extent : spec.shape) extents.push_back(static_cast<uint32_t>(extent));
  return {std::move(name), spec, std::move(extents)};
}

std::string read_text(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path);
  if (!file || !(text << file.rdbuf()))
    throw FileReadError(str("the file must be readable and not empty, got '", path, "'"));
  return text.str();
}

std::shared_ptr<const Network> make_network(const std::string& symbol_text,
                                            const std::string& symbol_source,
                                            const NamedArrays& parameters, Device device,
                                            const std::vector<std::string>& outputs) {
  if (on_gpu(device)) require_accelerator("predict", device.index);
  symbol::FileHooks hooks;
  hooks.make_call = symbol::make_call;
  auto network = std::make_shared<Network>();
  network->device = device;
  network->heads = symbol::load(symbol_text, symbol_source, hooks);
  if (!outputs.empty()) {
    const auto nodes = symbol::topological_order(network->heads);
    network->heads.clear();
    for (const std::string& name : outputs) network->heads.push_back(find_output(nodes, name));
  }
  MX_CHECK(parameters.names.size() == parameters.arrays.size(),
           "the parameters must have names, got ", parameters.arrays.size(),
           " arrays without names");
  std::map<std::string, NDArrayRef> arrays;
  for (size_t i = 0; i < parameters.names.size(); ++i)
    arrays[without_prefix(parameters.names[i])] = parameters.arrays[i];
  for (const symbol::NodeRef& node : symbol::topological_order(network->heads)) {
    const auto found = arrays.find(node->name());
    if (!node->is_variable() || found == arrays.end() || !found->second) continue;
    MX_CHECK_KIND(!found->second->is_sparse(), ErrorKind::kNotSupported, "the parameter '",
                  node->name(), "' must be dense, got a sparse array");
    network->parameters[node->name()] =
        on_gpu(device) ? copy_to_device(found->second, device) : found->second;
  }
  return network;
}

Predictor::Predictor(std::shared_ptr<const Network> network, std::vector<GivenInput> given)
    : network_(std::move(network)), given_(std::move(given)) {
  const autograd::ModeScope unrecorded({});
  const symbol::Inference inference = inferred(*network_, given_);
  bound_ = bind(inference);
  calls_ = inference.completed_calls();
  for (const symbol::NodeOutput& head : network_->heads) {
    const Shape& shape = inference.shape(*head.node, head.output);
    const std::string name = head.node->output_name(head.output);
    MX_CHECK(shape.is_known(), "the shape of output '", name,
             "' must follow from the shapes of inputs, got ", shape);
    outputs_.push_back(value_of(name, {shape, *inference.type(*head.node, head.output)}));
  }
  graph_ = std::make_unique<symbol::BoundGraph>(network_->heads, bound_, std::nullopt, "predictor");
}

symbol::BoundArrays Predictor::bind(const symbol::Inference& inference) {
  const symbol::Variables variables = symbol::variables_of(inference.nodes());
  const std::vector<std::string> weights = symbol::weight_names(network_->heads);
  const std::set<std::string> unset_labels = labels(inference.nodes());
  std::vector<std::string> missing;
  symbol::BoundArrays bound;
  for (size_t i = 0; i < variables.all.size(); ++i) {
    const symbol::Node& variable = *variables.all[i];
    const std::string& name = variable.name();
    const auto own = network_->parameters.find(name);
    NDArrayRef array = own == network_->parameters.end() ? nullptr : own->second;
    const bool is_given = std::ranges::any_of(given_, [&](auto& g) { return g.name == name; });
    if (!array && !is_given &&
        (variables.is_state[i] || std::ranges::find(weights, name) != weights.end())) {
      missing.push_back(name);
      continue;
    }
    if (!array) {
      const Shape& shape = inference.shape(variable, 0);
      MX_CHECK_SHAPE(shape.is_known(), "the shape of input '", name,
                     "' must be given or follow from other shapes, got ", shape);
      const TensorSpec spec{shape, *inference.type(variable, 0)};
      array = autograd::call_op("_zeros", {}, {{"shape", spec.shape}, {"dtype", spec.dtype}},
                                network_->device);
      inputs_.push_back(value_of(name, spec));
      arrays_.push_back(array);
      is_set_.push_back(unset_labels.contains(name));
    }
    if (variables.is_state[i]) {
      bound.states.push_back(array);
      continue;
    }
    bound.arguments.push_back(array);
    bound.gradients.push_back(nullptr);
    bound.requests.push_back(autograd::GradReq::kNull);
  }
  MX_CHECK(missing.empty(),
           "the parameters must have a value for each weight of the network, got "
           "none for: ",
           list_of(missing));
  return bound;
}

std::unique_ptr<Predictor> Predictor::reshaped(const std::vector<GivenInput>& given) const {
  std::vector<GivenInput> all = given_;
  for (const GivenInput& input : given) {
    const auto same = std::ranges::find(all, input.name, &GivenInput::name);
    if (same == all.end()) {
      all.push_back(input);
    } else {
      same->shape = input.shape;
      if (input.dtype) same->dtype = input.dtype;
    }
  }
  return std::make_unique<Predictor>(network_, std::move(all));
}

void Predictor::set_input(size_t index, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  check_size(inputs_[index], bytes.size(), "input");
  const NDArrayRef& array = arrays_[index];
  const NDArrayRef host =
      on_gpu(network_->device) ? empty_for_transfer(inputs_[index].spec) : array;
  host->wait_to_write();
  std::memcpy(host->data(), bytes.data(), bytes.size());
  engine::Engine::get().host_wrote(host->storage()->var());
  if (host != array) copy_to(host, array);
  is_set_[index] = true;
}

void Predictor::forward() {
  const std::lock_guard lock(mutex_);
  const auto unset = std::ranges::find(is_set_, false);
  MX_CHECK(unset == is_set_.end(), "the input '",
           inputs_[static_cast<size_t>(unset - is_set_.begin())].name,
           "' must be set before forward, got no value");
  (watched_ ? watched_ : graph_)->forward(/*training=*/false, /*record=*/false);
}

void Predictor::set_monitor(const Monitor& monitor, bool with_inputs) {
  const std::lock_guard lock(mutex_);
  watched_.reset();
  if (!monitor) return;
  const auto listing = std::make_shared<const symbol::Listing>(network_->heads, calls_);
  const auto run = [=, device = network_->device](int32_t id, const symbol::Arrays& inputs) {
    const symbol::Node& node = *listing->nodes[static_cast<size_t>(id)];
    const graph::CallRef& call = listing->graph.node(id).call;
    MX_CHECK_KIND(!call->host(), ErrorKind::kNotSupported, "monitored networks must not have '",
                  call->file_op, "', which runs outside of the library");
    for (size_t i = 0; with_inputs && i < inputs.size(); ++i) {
      if (node.inputs[i].node->is_variable()) monitor(node.inputs[i].node->name(), inputs[i]);
      monitor(call->input_name(static_cast<int>(i), node.num_inputs()), inputs[i]);
    }
    const NDArrays made = symbol::run_operator(call, inputs, device, {});
    const size_t shown = symbol::num_shown_outputs(*call, static_cast<int>(inputs.size()));
    for (size_t i = 0; i < std::min(shown, made.size()); ++i)
      monitor(node.output_name(static_cast<int>(i)), made[i]);
    return symbol::Arrays(made.begin(), made.end());
  };
  watched_ =
      std::make_unique<symbol::BoundGraph>(network_->heads, bound_, calls_, "predictor", run);
}

void Predictor::get_output(size_t index, std::span<std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  check_size(outputs_[index], bytes.size(), "output");
  MX_CHECK(!results().empty(), "forward must be called before outputs are read, got no call");
  const NDArrayRef array = on_host(results()[index]);
  MX_CHECK_SHAPE(array->spec().bytes() == bytes.size(), "the output '", outputs_[index].name,
                 "' must have the inferred shape ", outputs_[index].spec.shape, ", got ",
                 array->shape(), " of ", array->dtype());
  std::memcpy(bytes.data(), array->data(), bytes.size());
}

size_t index_of(const std::vector<Value>& values, const std::string& name, const char* what) {
  std::vector<std::string> names;
  for (const Value& value : values) names.push_back(value.name);
  return check_name(names, name, what);
}

}  // namespace mxlite::predict
