// A trace records every operator call while a block's forward runs on arrays without data.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "cpp/graph/graph.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {

class Trace;

// A forward cannot be traced, so its block runs operator by operator; DynamicShapeError in Python.
class DynamicShapeError : public Error {
 public:
  explicit DynamicShapeError(std::string text) : Error(ErrorKind::kNotSupported, std::move(text)) {}
};

// A forward reads or writes values while it is traced; TracedArrayError in Python.
class TracedArrayError : public DynamicShapeError {
 public:
  using DynamicShapeError::DynamicShapeError;
};

// Returns whether an array is of numpy mode's class.
bool any_numpy(std::span<const NDArrayRef> arrays);

// The graph of a trace that has ended. The object exists as long as any array of the trace.
struct EndedTrace {
  std::atomic<bool> ended = false;  // if true, `graph` is set and constant
  Graph graph;
  int64_t owner = 0;
};

// The link from a traced array to its value in the graph.
class TraceValue final : public TraceInfo {
 public:
  TraceValue(uint64_t t, ValueId v, std::shared_ptr<EndedTrace> l)
      : trace(t), value(v), later(std::move(l)) {}
  uint64_t trace;  // serial number of the trace, which may have ended
  ValueId value;
  std::shared_ptr<EndedTrace> later;  // null in a trace of a PartOfCurrent
};

class Trace {
 public:
  // Makes this object the thread's current trace until it is destroyed; traces nest. `recording`
  // says whether the traced call is recorded. With `numpy`, the arrays of the trace are of numpy
  // mode's class.
  Trace(std::string name, Device device, bool training, bool recording, bool numpy);
  // Tag for tracing a part of the current trace's forward that becomes a separate graph (the body
  // of a loop). The part may use arrays, parameters and captured arrays of the outer trace
  // (imported_inputs).
  struct PartOfCurrent {};
  Trace(std::string name, PartOfCurrent);
  ~Trace();
  Trace& operator=(Trace&&) = delete;  // neither copied nor moved

  static Trace* current();
  // Throws the error for reading data of a traced array, as asnumpy and bool(x) do. The text
  // suggests a remedy.
  [[noreturn]] static void fail_read(const NDArray& array, const char* what);
  [[noreturn]] static void fail_outside(const OpSchema& op, int input);

  NDArrayRef add_input(const TensorSpec& spec);
  // Operators that use the parameter fill its unknown dimensions (-1).
  NDArrayRef add_parameter(const TensorSpec& spec);
  NDArrays record(CallRef call, std::span<const NDArrayRef> inputs);
  // Derives the name of the call from the scope and the line.
  NDArrays record(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
                  engine::Origin origin);
  // Nodes that inline_graph does not copy. inline_graph calls `run` for each of these nodes, and
  // the calls made by `run` are traced.
  struct Expanded {
    std::vector<uint8_t> nodes;  // indexed by node; empty if all nodes are copied
    std::function<std::vector<NDArrayRef>(int32_t node, const std::vector<NDArrayRef>& inputs)> run;
  };
  // Adds the calls of another graph, from an earlier trace or a symbol. Returns its outputs.
  std::vector<NDArrayRef> inline_graph(const Graph& graph, std::span<const NDArrayRef> inputs,
                                       std::span<const NDArrayRef> parameters,
                                       const Expanded& expanded = {});
  // Ends the trace and returns its graph.
  Graph finish(std::span<const NDArrayRef> outputs);
  Device device() const { return device_; }
  bool training() const { return graph_.training; }
  bool recording() const { return recording_; }
  // Names the nodes that are recorded during its lifetime: "<name>_<op>" with the line of the call,
  // or just `name`.
  struct Scope {
    NodeName name;
    bool whole = false;
  };
  Scope set_scope(Scope scope) { return std::exchange(scope_, std::move(scope)); }
  // Sets the id of the block whose forward is traced unless the id is already set. If the block
  // uses an array of an earlier trace of the same block, the array's calls are recorded again with
  // the inputs and parameters at the same positions. Arrays of other ended traces must depend on
  // neither inputs nor parameters.
  void set_owner(int64_t owner) {
    if (owner_ == 0) owner_ = owner;
  }
  // Returns arrays of the outer trace that this PartOfCurrent uses. They become parameters, and
  // inputs after those added by add_input.
  const std::vector<NDArrayRef>& imported_inputs() const { return imported_inputs_; }
  const std::vector<NDArrayRef>& imported_parameters() const { return imported_parameters_; }

 private:
  NDArrayRef make_array(ValueId value);
  ValueId value_of(const NDArrayRef& array);
  std::vector<ValueId> values_of(std::span<const NDArrayRef> arrays);
  // Returns arrays of the same class as the results of an eager call with `inputs`.
  NDArrays outputs_of(int32_t node, std::span<const NDArrayRef> inputs);
  ValueId import(const NDArrayRef& array);
  ValueId repeat(const std::shared_ptr<EndedTrace>& from, ValueId value);
  ValueId same_leaf(const EndedTrace& from, const Node& leaf);
  [[noreturn]] void fail_foreign() const;
  void remember();
  ValueId add_leaf(NodeKind kind, const TensorSpec& spec, const char* name, NDArrayRef value = {});
  // Adds a call. Fills unknown dimensions of its inputs, and of `arrays` unless it is empty.
  ValueId add(CallRef call, std::vector<ValueId> inputs, std::span<const NDArrayRef> arrays);
  // Like `add`, but returns the node. Errors in a symbol's call begin with the call's name.
  int32_t add_named(const CallRef& call, std::vector<ValueId> inputs,
                    std::span<const NDArrayRef> arrays);
  void complete(ValueId value, const TensorSpec& spec);
  NodeName name_of(const OpSchema& op, engine::Origin origin) const;
  void check_mutation(const OpSchema& op, std::span<const ValueId> inputs) const;

  Trace* const outer_;
  const bool is_part_ = false;
  const bool recording_;
  const bool numpy_;
  uint64_t serial_;
  Device device_;
  int64_t owner_ = 0;
  Graph graph_;
  Scope scope_;
  std::vector<std::pair<NDArrayRef, ValueId>> captured_;  // arrays with data that forward uses
  struct Import {
    ValueId outer, own;
  };
  std::vector<Import> imports_;
  // Gets the graph when the trace ends, for arrays that are still alive. The pointer is null in
  // traces of parts.
  std::shared_ptr<EndedTrace> later_;
  struct Repeated {
    std::shared_ptr<EndedTrace> from;
    int32_t node, own;
  };
  std::vector<Repeated> repeated_;  // nodes of ended traces that this trace records again
  std::vector<NDArrayRef> imported_inputs_, imported_parameters_;
};

}  // namespace mxlite::graph
