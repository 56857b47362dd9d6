// Nodes and entries of symbols in the Python interface. An entry is a pair (node, output).
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <span>
#include <string>
#include <utility>

#include "cpp/graph/host_op.h"
#include "cpp/symbol/node.h"

namespace mxlite::python {

namespace py = pybind11;

// A call of an operator written in Python. The Python object's methods and properties have the
// names of the methods below, with three exceptions: `mutated` stands for written, `types`
// (optional) for fill_types, and `run` for call.
class PythonCall final : public graph::HostOp {
 public:
  explicit PythonCall(py::object object) : object_(std::move(object)) {}
  ~PythonCall() override;
  const py::object& object() const { return object_; }

  Specs infer(std::span<const TensorSpec> inputs) const override;
  void complete(std::span<TensorSpec> inputs) const override;
  bool writes(int input) const override;
  NDArrays call(std::span<const NDArrayRef> inputs) const override;
  int num_inputs() const override;
  int num_outputs(int num_inputs) const override;
  std::string input_name(int index) const override;
  std::vector<std::string> output_names() const override;
  std::vector<int> written(int num_inputs) const override;
  bool fill_types(KnownTypes in, KnownTypes out) const override;

 private:
  py::object object_;
};

// Returns the Python object for a call: None for a variable, the object of a PythonCall, or a
// HostCall for a loop or branch.
py::object call_to_python(const symbol::CallRef& call);
// Inverse of call_to_python for objects other than None. The returned call has no name.
symbol::Call call_from_python(const std::string& op, const py::object& object);

// Convert shapes that may be unknown (None) or have unknown extents (-1).
Shape partial_shape_from_python(py::handle shape);
py::object partial_shape_to_python(const Shape& shape);
TensorSpec spec_from_python(py::handle spec);
py::tuple spec_to_python(const TensorSpec& spec);
Specs specs_from_python(py::handle specs);
py::list specs_to_python(std::span<const TensorSpec> specs);

// Returns the dtype's name, or None if it is unknown.
py::object known_type_to_python(KnownType type);

// A loop or a branch in the Python interface.
struct HostCall {
  symbol::CallRef call;
};

// Creates a call of the operator `op` of a symbol file with the parameters in `attrs`.
symbol::Call make_symbol_call(const std::string& op, const symbol::Attributes& attrs);
// Returns whether register_symbol_call was called for the operator.
bool is_python_call(const std::string& op);

// Returns the running Python line outside mxlite, such as "train.py:12", or an empty text if no
// such line exists.
std::string user_line();

// The name and the attributes that a new node gets from the current scopes.
struct ScopedNode {
  graph::NodeName name;
  symbol::Attributes attrs;
};
ScopedNode scoped_node(const std::string& hint);

// Runs a registered operator on arrays, which may be traced. Returns the visible outputs.
py::list run_call(const symbol::CallRef& call, const std::vector<NDArrayRef>& inputs);
NDArrays run_with_hidden_outputs(const symbol::CallRef& call,
                                 const std::vector<NDArrayRef>& inputs);

void bind_inference(py::module_& m);
void bind_evaluate(py::module_& m);
void bind_subgraph(py::module_& m);
void bind_symbol_files(py::module_& m);
void bind_compose(py::module_& m);

}  // namespace mxlite::python

namespace pybind11::detail {

template <>
struct type_caster<mxlite::symbol::NodeOutput> {
  PYBIND11_TYPE_CASTER(mxlite::symbol::NodeOutput, const_name("tuple[Node, int]"));

  bool load(handle source, bool) {
    if (!isinstance<tuple>(source) || reinterpret_borrow<tuple>(source).size() != 2) return false;
    const auto pair = reinterpret_borrow<tuple>(source);
    if (!isinstance<mxlite::symbol::Node>(pair[0])) return false;
    value = {pair[0].cast<mxlite::symbol::NodeRef>(), pair[1].cast<int>()};
    return true;
  }
  static handle cast(const mxlite::symbol::NodeOutput& entry, return_value_policy, handle) {
    return pybind11::make_tuple(entry.node, entry.output).release();
  }
};

}  // namespace pybind11::detail
