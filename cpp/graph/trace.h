// Runs a block's forward on arrays without data and writes down every operator call.
#pragma once
#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

class Trace;

// The link from a traced array to its value in the graph.
class TraceValue final : public TraceInfo {
 public:
  TraceValue(uint64_t t, ValueId v) : trace(t), value(v) {}
  uint64_t trace;  // serial number; the trace may have ended
  ValueId value;
};

class Trace {
 public:
  // Makes this the thread's current trace until it is destroyed; traces nest.
  explicit Trace(std::string name, Device device, bool training);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  static Trace* current();
  // Reading data of a traced array (asnumpy, bool(x)): an error that says what to do.
  [[noreturn]] static void fail_read(const NDArray& array, const char* what);
  [[noreturn]] static void fail_outside(const OpSchema& op, int input);

  NDArrayRef add_input(const TensorSpec& spec);
  // Dimensions of -1 are filled by the operators that use the parameter.
  NDArrayRef add_parameter(const TensorSpec& spec);
  NDArrays record(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
                  Device device);
  // Ends the program.
  Graph finish(std::span<const NDArrayRef> outputs);
  Device device() const { return device_; }
  // Nodes recorded from now on are named "<scope>_<op>"; returns the old scope.
  std::string set_scope(std::string scope) { return std::exchange(scope_, std::move(scope)); }
  // Shape of parameter i as far as it is known by now.
  const TensorSpec& parameter_spec(int i) const;

 private:
  NDArrayRef make_array(ValueId value);
  ValueId value_of(const NDArrayRef& array);
  void check_mutation(const OpSchema& op, std::span<const ValueId> inputs) const;

  Trace* outer_;
  uint64_t serial_;
  Device device_;
  Graph graph_;
  std::string scope_;
  std::vector<std::pair<NDArrayRef, ValueId>> captured_;  // concrete arrays used in forward
};

}  // namespace mxlite::graph
