// NDArray: attributes, waiting, copies and views. Python implements indexing and formatting
// (mxlite/ndarray/). bind_operators.cc has the arithmetic.
#include <pybind11/stl.h>

#include <optional>

#include "cpp/autograd/call.h"
#include "cpp/autograd/mode.h"
#include "cpp/autograd/tape.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/write_line.h"
#include "cpp/graph/trace.h"
#include "cpp/ops/tensor/reshape_to.h"
#include "cpp/ops/tensor/slice.h"
#include "cpp/python/array_handles.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

template <class F, class... Extra>
void method(const char* name, F&& f, const Extra&... extra) {
  const py::handle cls(reinterpret_cast<PyObject*>(array_type));
  cls.attr(name) = py::cpp_function(std::forward<F>(f), py::name(name), py::is_method(cls),
                                    py::sibling(py::getattr(cls, name, py::none())), extra...);
}
template <class F>
void property(const char* name, F&& get, const char* doc) {
  const py::handle cls(reinterpret_cast<PyObject*>(array_type));
  const auto type =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyProperty_Type));
  cls.attr(name) = type(py::cpp_function(std::forward<F>(get), py::name(name), py::is_method(cls)),
                        py::none(), py::none(), doc);
}

void require_data(const NDArrayRef& a, const char* what) {
  if (a->is_traced()) graph::Trace::fail_read(*a, what);
}

// Returns a view if the array is contiguous, otherwise a copy. The call is recorded and traced as
// _reshape_to.
NDArrayRef reshape_view(const NDArrayRef& a, const Shape& shape) {
  auto params = std::make_shared<ReshapeToParams>(ReshapeToParams{shape});
  const OpSchema& op = ops().get("_reshape_to");
  if (a->is_traced()) return autograd::call(op, params, {&a, 1})[0];
  infer_outputs(op, params.get(), {&a->spec(), 1});
  if (!a->contiguous())
    return autograd::call(op, params, {&a, 1},
                          {.device = a->device(), .origin = current_origin()})[0];
  NDArrayRef view = a->reshaped(shape);
  autograd::record_view(op, params, a, view);
  return view;
}

// Returns a view of rows [begin, end) of axis 0. If `drop_axis` is true, returns one row without
// the axis.
NDArrayRef slice_view(const NDArrayRef& a, int64_t begin, int64_t end, bool drop_axis) {
  require_data(a, "slice");
  Shape shape = a->shape();
  Strides strides = a->strides();
  const int64_t offset = a->offset() + begin * strides[0];
  shape[0] = end - begin;
  if (drop_axis) {
    shape.erase(0);
    strides.erase(0);
    if (shape.ndim() == 0) {  // 1.x has no 0-d arrays, so an element of a vector has shape (1,)
      shape.push_back(1);
      strides.push_back(1);
    }
  }
  return a->strided(shape, strides, offset);
}

// The elements of one axis that an item of a key selects.
struct Selected {
  int64_t first, end, step, count;
};

Selected selected_by(PyObject* item, int axis, int64_t size) {
  if (PySlice_Check(item)) {
    Py_ssize_t first = 0, end = 0, step = 0;
    if (PySlice_Unpack(item, &first, &end, &step) < 0) throw py::error_already_set();
    const Py_ssize_t count = PySlice_AdjustIndices(size, &first, &end, step);
    return {first, end, step, count};
  }
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Long(item));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  int64_t index = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  MX_CHECK_KIND(!overflow && index >= -size && index < size, ErrorKind::kIndex, "index ",
                std::string(py::str(number)), " is out of bounds for axis ", axis, " with size ",
                size);
  if (index < 0) index += size;
  return {index, index + 1, 1, 1};
}

// Returns whether the selected elements are adjacent in a contiguous array of these sizes.
bool are_adjacent(const SmallVector<Selected, 6>& selected, const Shape& sizes) {
  bool inside = true;  // whether all axes after this one are whole
  for (int axis = sizes.ndim() - 1; axis >= 0; --axis) {
    const Selected& s = selected[static_cast<size_t>(axis)];
    if (s.count == 0 || (s.count > 1 && (s.step != 1 || !inside))) return false;
    inside = inside && s.count == sizes[axis];
  }
  return true;
}

// Returns the elements that numbers, slices and None (a new axis) select, with an item for each
// axis of the array: if `may_view` and they are adjacent, a view, else a copy.
NDArrayRef basic_index(const NDArrayRef& a, const py::list& items, bool may_view) {
  const Shape& sizes = a->shape();
  SmallVector<Selected, 6> selected;
  Shape shape;
  Strides strides;
  int64_t offset = a->offset();
  bool whole = true;
  for (const py::handle& item : items) {
    if (item.is_none()) {
      shape.push_back(1);
      strides.push_back(1);
      continue;
    }
    const auto axis = static_cast<int>(selected.size());
    const Selected s = selected_by(item.ptr(), axis, sizes[axis]);
    if (may_view) offset += s.first * a->strides()[axis];
    if (PySlice_Check(item.ptr())) {
      shape.push_back(s.count);
      strides.push_back(may_view ? a->strides()[axis] : 1);
    }
    whole = whole && s.count == sizes[axis] && s.step == 1;
    selected.push_back(s);
  }
  if (shape.ndim() == 0 && !a->is_numpy()) {  // 1.x has no 0-d arrays
    shape.push_back(1);
    strides.push_back(1);
  }
  if (whole && (a->contiguous() || !may_view)) return reshape_view(a, shape);
  if (may_view && are_adjacent(selected, sizes))
    return a->strided(shape, a->contiguous() ? contiguous_strides(shape) : strides, offset);
  auto params = std::make_shared<SliceParams>();
  Shape sliced;
  for (int axis = 0; axis < sizes.ndim(); ++axis) {
    const Selected& s = selected[static_cast<size_t>(axis)];
    std::optional<int64_t> begin, end, step;  // stay empty for a whole axis, so that a traced
                                              // graph also works for other sizes
    if (s.count == 0) {
      begin = end = 0;
      step = 1;
    } else if (s.count != sizes[axis] || s.step != 1) {
      begin = s.first;
      if (s.end >= 0) end = s.end;  // a negative step ends before element 0 at None
      step = s.step;
    }
    params->begin.push_back(begin);
    params->end.push_back(end);
    params->step.push_back(step);
    sliced.push_back(s.count);
  }
  NDArrayRef result = autograd::call(ops().get("slice"), params, {&a, 1},
                                     {.device = a->device(), .origin = current_origin()})[0];
  return sliced == shape ? result : reshape_view(result, shape);
}

void bind_attributes() {
  property(
      "shape", [](const NDArrayRef& a) { return shape_to_python(a->shape()); },
      "Tuple of dimensions.");
  property(
      "dtype",
      [](const NDArrayRef& a) {
        return py::reinterpret_borrow<py::object>(dtype_to_python(a->dtype()));
      },
      "NumPy scalar type, as numpy.float32.");
  property(
      "_numpy_dtype",
      [](const NDArrayRef& a) {
        return py::reinterpret_borrow<py::object>(numpy_dtype(a->dtype()));
      },
      "NumPy's dtype of the elements; the text \"bfloat16\" where NumPy does not have the type.");
  property(
      "size", [](const NDArrayRef& a) { return a->size(); }, "Number of elements.");
  property(
      "ndim", [](const NDArrayRef& a) { return a->shape().ndim(); }, "Number of dimensions.");
  for (const char* name : {"context", "ctx", "device"})
    property(
        name, [](const NDArrayRef& a) { return device_to_python(a->device()); },
        "The device that holds the array.");
  property(
      "stype", [](const NDArrayRef&) { return "default"; }, "Storage type.");
  property(
      "_strides", [](const NDArrayRef& a) { return shape_to_python(a->strides()); },
      "Strides in elements.");
  property(
      "_traced", [](const NDArrayRef& a) { return a->is_traced(); },
      "Whether a trace of a hybridized forward made the array; it then has no data.");
  property(
      "_numpy", [](py::handle array) { return array_of(array.ptr())->is_numpy(); },
      "Whether the array is of numpy mode's class; so are the results of operators on it.");
  property(
      "handle", [](py::handle array) { return handle_to_python(array_of(array.ptr()).get()); },
      "Address for the functions of mx.base._LIB, valid as long as the array.");
  property(
      "_version",
      [](const NDArrayRef& a) { return a->storage() ? a->storage()->var().version() : 0; },
      "A number that every write into the memory changes.");
}

void bind_waiting() {
  method(
      "wait_to_read",
      [](const NDArrayRef& a) {
        require_data(a, "wait_to_read");
        const ProfileScope profile("MXNDArrayWaitToRead", ProfileKind::kApi);
        a->wait_to_read();
      },
      "Block until the value is computed; raises the error of the computation.");
  method(
      "wait_to_write",
      [](const NDArrayRef& a) {
        require_data(a, "wait_to_write");
        a->wait_to_write();
      },
      "Block until no task reads or writes the array.");
}

void bind_copies() {
  method(
      "copyto",
      [](const NDArrayRef& a, py::object other) {
        require_data(a, "copyto");
        if (is_array(other.ptr())) {
          const NDArrayRef& target = array_of(other.ptr());
          require_data(target, "copyto");
          autograd::check_writable("copyto", target);
          const engine::WriteLine write_line(current_origin());
          copy_to(a, target);
          return target;
        }
        if (is_sparse_array(other.ptr())) {
          const py::object copy = make_op_object(ops().get("_copy"), "_copy"),
                           names = py::make_tuple("out");
          PyObject* const operands[] = {wrap_array(a), other.ptr()};
          const py::object source = py::reinterpret_steal<py::object>(operands[0]);
          const py::object done =
              py::reinterpret_steal<py::object>(call_sparse(copy.ptr(), operands, 1, names.ptr()));
          if (!done) throw py::error_already_set();
          return array_of(other.ptr());
        }
        return copy_to_device(a, device_from_python(other));
      },
      py::arg("other"), "Copy into another array (converting dtype) or to a context.");
  method(
      "detach",
      [](const NDArrayRef& a) {
        return a->is_traced() ? autograd::call_op("BlockGrad", {a}) : a->detached();
      },
      "The same memory without history: gradients stop here.");
  method(
      "_reshape_view",
      [](const NDArrayRef& a, py::object shape) {
        return reshape_view(a, shape_from_python(shape, "reshape"));
      },
      py::arg("shape"), "Same memory, other shape; every dimension given.");
  method("_basic_index", &basic_index, py::arg("items"), py::arg("may_view"),
         "The elements that a number, slice or None for each axis select; adjacent ones share "
         "memory if `may_view`.");
  method("_slice_view", &slice_view, py::arg("begin"), py::arg("end"), py::arg("drop_axis"),
         "Rows of axis 0, sharing memory.");
  method(
      "_strided_view",
      [](const NDArrayRef& a, py::object shape, py::object strides, int64_t offset) {
        require_data(a, "view");
        return a->strided(shape_from_python(shape, "view"), shape_from_python(strides, "view"),
                          a->offset() + offset);
      },
      py::arg("shape"), py::arg("strides"), py::arg("offset"),
      "Any strided view of the memory; strides and offset in elements. IndexError outside of it.");
  method(
      "_assign_handle",
      [](const NDArrayRef& a, const NDArrayRef& other) { a->assign_handle(*other); },
      py::arg("other"), "Make this object refer to the other's memory.");
}

void bind_gradient() {
  property(
      "grad", [](const NDArrayRef& a) { return autograd::gradient_of(*a); },
      "Gradient array of a variable, or None.");
  property(
      "_grad_req",
      [](const NDArrayRef& a) {
        const autograd::ArrayInfo* info = autograd::info_of(*a);
        return static_cast<int>(info ? info->req : autograd::GradReq::kNull);
      },
      "0 null, 1 write, 2 add.");
  property(
      "_fresh_grad",
      [](const NDArrayRef& a) {
        const autograd::ArrayInfo* info = autograd::info_of(*a);
        return info && info->fresh;
      },
      "Whether backward has stored a gradient since this was last set to False.");
  method(
      "_set_fresh_grad",
      [](const NDArrayRef& a, bool fresh) {
        if (autograd::ArrayInfo* info = autograd::info_of(*a)) info->fresh = fresh;
      },
      py::arg("fresh"), "Set _fresh_grad.");
  property(
      "_recorded",
      [](const NDArrayRef& a) {
        const autograd::ArrayInfo* info = autograd::info_of(*a);
        return info && info->node;
      },
      "Whether the array is the result of a recorded computation.");
}

}  // namespace

void bind_array(py::module_& m) {
  bind_attributes();
  bind_waiting();
  bind_copies();
  bind_gradient();
  m.def(
      "array_kind",
      [](py::handle object) -> std::optional<const char*> {
        const ArrayKind kind = array_kind(object.ptr());
        if (kind == ArrayKind::kNone) return std::nullopt;
        return kind == ArrayKind::kDense ? "dense" : "sparse";
      },
      py::arg("object"),
      "'dense' for an NDArray and objects of a subclass that is not sparse, 'sparse' for an array\n"
      "of mx.nd.sparse, None for everything else.");
  m.def(
      "empty",
      [](py::object shape, py::object ctx, py::object dtype) {
        const Shape s = shape_from_python(shape, "empty");
        for (int64_t d : s)
          MX_CHECK_SHAPE(d >= 0, "empty: dimensions must be at least 0, got shape ", s);
        const DType d = dtype.is_none() ? DType::kFloat32 : require_dtype(dtype, "empty");
        return NDArray::empty({s, d}, device_from_python(ctx));
      },
      py::arg("shape"), py::arg("ctx") = py::none(), py::arg("dtype") = py::none(),
      "Array whose values are not set.");
  m.def(
      "set_numpy_class", [](const py::object& cls) { set_numpy_class(cls.ptr()); }, py::arg("cls"),
      "Make objects of numpy mode's arrays from a subclass of NDArray; None: NDArray itself.");
  m.def(
      "with_numpy", [](const NDArrayRef& a, bool numpy) { return a->with_numpy(numpy); },
      py::arg("array"), py::arg("numpy"),
      "The same memory and history as an array of numpy mode's class, or as an NDArray.");
  m.def(
      "check_writable", [](const NDArrayRef& a) { autograd::check_writable("x[...] = value", a); },
      py::arg("array"),
      "Raise if the array is part of a recorded computation and recording is on.");
  m.def(
      "infer_reshape",
      [](const py::object& shape, const py::object& target, bool reverse) {
        const OpSchema& op = ops().get("Reshape");
        const std::pair<std::string_view, AttrValue> attrs[] = {
            {"shape", shape_from_python(target, "reshape")}, {"reverse", reverse}};
        const TensorSpec spec{shape_from_python(shape, "reshape"), DType::kFloat32};
        return shape_to_python(
            infer_outputs(op, op.make_params_by_name(attrs).get(), {&spec, 1})[0].shape);
      },
      py::arg("shape"), py::arg("target"), py::arg("reverse"),
      "The shape that Reshape's codes (0, -1, -2, -3, -4) stand for.");
  m.def(
      "is_half", [](const py::handle& dtype) { return is_half(require_dtype(dtype, "is_half")); },
      py::arg("dtype"), "Whether a dtype is float16 or bfloat16.");
  m.def(
      "is_floating",
      [](const py::handle& dtype) { return is_floating(require_dtype(dtype, "is_floating")); },
      py::arg("dtype"), "Whether a dtype holds real numbers, halves included.");
  m.def(
      "dtype_type",
      [](const py::object& dtype) {
        return py::reinterpret_borrow<py::object>(dtype_to_python(require_dtype(dtype, "dtype")));
      },
      py::arg("dtype"), "The NumPy scalar type of a dtype in any spelling.");
}

}  // namespace mxlite::python
