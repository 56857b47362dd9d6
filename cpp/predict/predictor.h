// Runs the forward pass of a network that was loaded from files. Serves programs without Python.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/ndarray/params_file.h"
#include "cpp/symbol/bound_graph.h"

namespace mxlite::predict {

// A network and its weights. Its predictors share this object, which is immutable.
struct Network {
  symbol::NodeOutputs heads;
  std::map<std::string, NDArrayRef> parameters;  // dense, on `device`
  Device device;
};

// `parameters` have names as in files of Module and Gluon, with "arg:", "aux:" or no prefix.
// `outputs` are names of values that replace the network's outputs, unless the list is empty.
// Throws FileError and value errors.
std::shared_ptr<const Network> make_network(const std::string& symbol_text,
                                            const std::string& symbol_source,
                                            const NamedArrays& parameters, Device device,
                                            const std::vector<std::string>& outputs);
// Returns the content of a small file. Throws FileReadError on failure.
std::string read_text(const std::string& path);

struct GivenInput {
  std::string name;
  Shape shape;
  std::optional<DType> dtype;  // inferred if empty
};

// An input or output of a predictor.
struct Value {
  std::string name;
  TensorSpec spec;
  std::vector<uint32_t> shape_32;  // for MXNet's interface
};

Value value_of(std::string name, const TensorSpec& spec);

// Receives the name and the value of a result inside the network.
using Monitor = std::function<void(const std::string& name, const NDArrayRef& array)>;

// Several threads may call the functions at the same time. The calls run one after another.
class Predictor {
 public:
  Predictor(std::shared_ptr<const Network> network, std::vector<GivenInput> given);
  // Returns a predictor of the same network in which the inputs in `given` replace inputs of the
  // same names.
  std::unique_ptr<Predictor> reshaped(const std::vector<GivenInput>& given) const;
  Predictor& operator=(Predictor&&) = delete;  // neither copied nor moved

  const std::vector<Value>& inputs() const { return inputs_; }
  const std::vector<Value>& outputs() const { return outputs_; }

  void set_input(size_t index, std::span<const std::byte> bytes);
  void forward();
  void get_output(size_t index, std::span<std::byte> bytes);
  // Makes forward run node by node. Forward then calls `monitor` for the outputs of each node, and
  // before that for its inputs if `with_inputs` is true. If `monitor` is empty, forward runs the
  // compiled network again. The monitor must not call this predictor.
  void set_monitor(const Monitor& monitor, bool with_inputs);

 private:
  symbol::BoundArrays bind(const symbol::Inference& inference);
  const symbol::Arrays& results() const { return (watched_ ? watched_ : graph_)->outputs(); }

  const std::shared_ptr<const Network> network_;
  const std::vector<GivenInput> given_;
  std::vector<Value> inputs_, outputs_;
  std::vector<NDArrayRef> arrays_;  // indexed by input
  symbol::Calls calls_;             // with inferred shapes
  symbol::BoundArrays bound_;
  std::unique_ptr<symbol::BoundGraph> graph_;
  std::unique_ptr<symbol::BoundGraph> watched_;  // runs node by node for a monitor, or null
  std::mutex mutex_;
  std::vector<bool> is_set_;  // guarded by mutex_; indexed by input
};

// Returns the index of the value with this name. Throws a value error that lists the names.
size_t index_of(const std::vector<Value>& values, const std::string& name, const char* what);

}  // namespace mxlite::predict
