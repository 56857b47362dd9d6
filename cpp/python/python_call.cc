#include <algorithm>

#include "cpp/python/convert.h"
#include "cpp/python/errors.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_node.h"
#include "cpp/python/trace_function.h"

namespace mxlite::python {
namespace {

// Runs fn and converts Python exceptions of mxlite.base to Error.
auto called(auto&& fn) {
  try {
    return fn();
  } catch (py::error_already_set& raised) {
    rethrow_as_error(raised);
  }
}

}  // namespace

Shape partial_shape_from_python(py::handle shape) {
  return shape.is_none() ? Shape::unknown() : shape_from_python(shape, "shape inference");
}

py::object partial_shape_to_python(const Shape& shape) {
  if (shape.ndim() < 0) return py::none();
  return shape_to_python(shape);
}

TensorSpec spec_from_python(py::handle spec) {
  const py::tuple pair = py::cast<py::tuple>(spec);
  return {partial_shape_from_python(pair[0]), require_dtype(pair[1], "shape inference")};
}

py::tuple spec_to_python(const TensorSpec& spec) {
  return py::make_tuple(partial_shape_to_python(spec.shape), dtype_name(spec.dtype));
}

Specs specs_from_python(py::handle specs) {
  Specs result;
  for (const py::handle spec : specs) result.push_back(spec_from_python(spec));
  return result;
}

py::list specs_to_python(std::span<const TensorSpec> specs) {
  py::list result;
  for (const TensorSpec& spec : specs) result.append(spec_to_python(spec));
  return result;
}

py::object known_type_to_python(KnownType type) {
  return type ? py::object(py::str(dtype_name(*type))) : py::none();
}

PythonCall::~PythonCall() {
  if (!may_take_gil()) {
    object_.release();
    return;
  }
  const GilAcquire gil;
  object_ = py::object();
}

int PythonCall::num_inputs() const { return object_.attr("num_inputs").cast<int>(); }
int PythonCall::num_outputs(int n) const { return object_.attr("num_outputs")(n).cast<int>(); }
std::string PythonCall::input_name(int index) const {
  return object_.attr("input_name")(index).cast<std::string>();
}
std::vector<std::string> PythonCall::output_names() const {
  return py::getattr(object_, "output_names", py::list()).cast<std::vector<std::string>>();
}
std::vector<int> PythonCall::written(int n) const {
  return object_.attr("mutated")(n).cast<std::vector<int>>();
}
bool PythonCall::writes(int input) const {
  const std::vector<int> all = written(num_inputs());
  return std::find(all.begin(), all.end(), input) != all.end();
}

void PythonCall::complete(std::span<TensorSpec> inputs) const {
  const py::sequence found =
      called([&] { return object_.attr("complete")(specs_to_python(inputs)); });
  for (size_t i = 0; i < inputs.size() && i < py::len(found); ++i)
    inputs[i].shape = partial_shape_from_python(found[i].cast<py::tuple>()[0]);
}

Specs PythonCall::infer(std::span<const TensorSpec> inputs) const {
  return specs_from_python(called([&] { return object_.attr("infer")(specs_to_python(inputs)); }));
}

bool PythonCall::fill_types(KnownTypes in, KnownTypes out) const {
  if (!py::hasattr(object_, "types")) return false;
  py::list known;
  for (const KnownType& type : in) known.append(known_type_to_python(type));
  const py::object inferred = called([&] { return object_.attr("types")(known); });
  if (inferred.is_none()) return false;
  const auto fill = [](KnownTypes types, const py::sequence& found) {
    for (size_t i = 0; i < types.size() && i < py::len(found); ++i) {
      const py::object name = found[i];
      if (!types[i] && !name.is_none()) types[i] = require_dtype(name, "type inference");
    }
  };
  const auto pair = inferred.cast<py::tuple>();
  fill(in, pair[0]);
  fill(out, pair[1]);
  return true;
}

NDArrays PythonCall::call(std::span<const NDArrayRef> inputs) const {
  py::list arrays;
  for (const NDArrayRef& input : inputs)
    arrays.append(py::reinterpret_steal<py::object>(wrap_array(input)));
  const auto made = arrays_from(object_.attr("run")(arrays), "a call that Python runs");
  return NDArrays(made.begin(), made.end());
}

py::object call_to_python(const symbol::CallRef& call) {
  if (!call->op) return py::none();
  if (const graph::HostOp* host = call->host()) {
    if (const auto* own = dynamic_cast<const PythonCall*>(host)) return own->object();
    return py::cast(HostCall{call});
  }
  return py::cast(std::const_pointer_cast<symbol::Call>(call));
}

symbol::Call call_from_python(const std::string& op, const py::object& object) {
  symbol::Call call;
  const bool is_host = py::isinstance<HostCall>(object);
  if (is_host || py::isinstance<symbol::Call>(object)) {
    const symbol::Call& given =
        is_host ? *object.cast<const HostCall&>().call : object.cast<const symbol::Call&>();
    call.op = given.op;
    call.params = given.params;
    call.attrs = given.attrs;
  } else {
    call.op = &graph::host_schema(op);
    call.params = graph::host_params(make_ref<const PythonCall>(object));
  }
  call.file_op = op;
  return call;
}

}  // namespace mxlite::python
