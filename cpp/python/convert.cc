#include "cpp/python/convert.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/core/accelerator.h"
#include "cpp/core/allocator.h"
#include "cpp/core/plugin_loader.h"
#include "cpp/ops/cpu/matrix/lapack.h"
#include "cpp/ops/op_schema.h"
#include "cpp/python/device_memory.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

constexpr std::array kNumPyNames = {"float32", "float64", "float16", "uint8", "int32",
                                    "int8",    "int64",   "bool_",   "int16", "uint16",
                                    "uint32",  "uint64",  "bfloat16"};

PyObject* make_dtype(size_t code) {
  if (static_cast<DType>(code) == DType::kBFloat16) {
    try {
      return py::module_::import("ml_dtypes").attr("bfloat16").cast<py::object>().release().ptr();
    } catch (py::error_already_set&) {
      return py::str("bfloat16").release().ptr();
    }
  }
  return py::module_::import("numpy").attr(kNumPyNames[code]).cast<py::object>().release().ptr();
}

constexpr Py_ssize_t kLongestSequence = 1 << 24;

AttrValue scalar_from_python(PyObject* o, const std::string& op, const std::string& param);

// Fast path for a tuple or list of plain ints. Returns false for all other objects.
bool read_ints(PyObject* o, Shape& shape) {
  if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  if (n > Shape::kMaxNdim) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(o, i);
    if (!PyLong_CheckExact(item)) return false;
    int overflow = 0;
    shape.push_back(PyLong_AsLongLongAndOverflow(item, &overflow));
    if (overflow) return false;
  }
  return true;
}

// Converts a tuple or list of numbers to the narrowest type that fits: Shape, OptionalInts or
// doubles.
AttrValue sequence_from_python(PyObject* o, const std::string& op, const std::string& param) {
  if (Shape ints; read_ints(o, ints)) return ints;
  const Py_ssize_t length = PySequence_Size(o);
  if (length < 0) PyErr_Clear();
  MX_CHECK_KIND(length >= 0, ErrorKind::kType, op, ": parameter ", param,
                " must be a tuple or list, got ", Py_TYPE(o)->tp_name, " without a length");
  MX_CHECK_KIND(length <= kLongestSequence, ErrorKind::kValue, op, ": parameter ", param,
                " must have at most ", kLongestSequence, " elements, got ", length);
  py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(o, "not a sequence"));
  if (!fast) throw py::error_already_set();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(fast.ptr());
  PyObject** items = PySequence_Fast_ITEMS(fast.ptr());
  std::vector<AttrValue> values;
  bool none = false, real = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    AttrValue v = scalar_from_python(items[i], op, param);
    none |= std::holds_alternative<std::monostate>(v);
    // Lists of integers contain int64. If a number is larger, all numbers of the list therefore
    // become real.
    real |= std::holds_alternative<double>(v) || std::holds_alternative<uint64_t>(v);
    if (!std::holds_alternative<std::monostate>(v) && !std::holds_alternative<double>(v) &&
        !std::holds_alternative<int64_t>(v) && !std::holds_alternative<uint64_t>(v) &&
        !std::holds_alternative<bool>(v))
      fail(ErrorKind::kType, op, ": parameter ", param,
           " must be a sequence of numbers, got an element '", attr_text(v), "'");
    values.push_back(std::move(v));
  }
  if (real && none)
    fail(ErrorKind::kType, op, ": parameter ", param,
         " must not contain None together with floats");
  if (real) {
    std::vector<double> out;
    for (const AttrValue& v : values) out.push_back(attr_to_double(v));
    return out;
  }
  if (none || n > Shape::kMaxNdim) {
    OptionalInts out;
    for (const AttrValue& v : values)
      out.push_back(std::holds_alternative<std::monostate>(v) ? std::optional<int64_t>()
                                                              : attr_to_int(v));
    return out;
  }
  Shape out;
  for (const AttrValue& v : values) out.push_back(attr_to_int(v));
  return out;
}

MemoryStats memory_stats(Device device) {
  if (device.type == DeviceType::kCUDA)
    return require_accelerator("memory_stats", device.index).stats(device.index);
  if (device.type == DeviceType::kPinned && accelerator()) return accelerator()->pinned().stats();
  return cpu_allocator().stats();
}

struct PyContext {
  Device device;
};
thread_local Device default_device;
thread_local std::vector<Device> device_stack;

PyContext make_context(DeviceType type, int index) {
  MX_CHECK_KIND(index >= 0, ErrorKind::kDevice, "Context: device_id of ", device_type_name(type),
                " must be at least 0, got ", index);
  return {{type, index}};
}

DeviceType device_type_of(int code) {
  for (const DeviceType type :
       {DeviceType::kCPU, DeviceType::kCUDA, DeviceType::kPinned, DeviceType::kShared})
    if (static_cast<int>(type) == code) return type;
  fail(ErrorKind::kDevice, "Context: device_typeid must be 1 (cpu), 2 (gpu), 3 (cpu_pinned) or 5 ",
       "(cpu_shared), got ", code);
}

// Restores a pickled Context from (type name, index) or from MXNet 1.x's dict of type code and
// index.
PyContext context_of_state(const py::object& state) {
  if (py::isinstance<py::dict>(state))
    return make_context(device_type_of(py::cast<int>(state["device_typeid"])),
                        py::cast<int>(state["device_id"]));
  const auto [name, index] = py::cast<std::pair<std::string, int>>(state);
  return make_context(parse_device(name).type, index);
}

}  // namespace

void release_cached_memory(Device device) {
  if (device.type == DeviceType::kCUDA)
    require_accelerator("empty_cache", device.index).release_cached(device.index);
  else if (device.type == DeviceType::kPinned && accelerator())
    accelerator()->pinned().release_cached();
  else
    cpu_allocator().release_cached();
}

namespace {

// The dtypes of type objects, and of NumPy's own dtype objects. Both are never freed. Reading the
// name of an object takes much longer than this table.
std::unordered_map<PyObject*, DType>& known_dtypes() {
  static auto* known = new std::unordered_map<PyObject*, DType>;
  return *known;
}

}  // namespace

void import_numpy_types() {
  for (size_t code = 0; code < kNumPyNames.size(); ++code)
    if (const auto dtype = static_cast<DType>(code); dtype != DType::kBFloat16)
      known_dtypes().emplace(numpy_dtype(dtype), dtype);
}

PyObject* numpy_dtype(DType dtype) {
  static std::array<PyObject*, kNumPyNames.size()> cache{};
  PyObject*& slot = cache[static_cast<size_t>(dtype)];
  if (!slot) {
    auto made = py::reinterpret_borrow<py::object>(dtype_to_python(dtype));
    if (!PyUnicode_Check(made.ptr())) made = py::module_::import("numpy").attr("dtype")(made);
    slot = made.release().ptr();
  }
  return slot;
}

PyObject* dtype_to_python(DType dtype) {
  static std::array<PyObject*, kNumPyNames.size()> cache{};
  PyObject*& slot = cache[static_cast<size_t>(dtype)];
  if (!slot) slot = make_dtype(static_cast<size_t>(dtype));
  return slot;
}

std::optional<DType> dtype_from_python(PyObject* o) {
  auto& known = known_dtypes();
  if (const auto it = known.find(o); it != known.end()) return it->second;
  std::string name;
  if (PyUnicode_Check(o)) {
    name = py::cast<std::string>(py::handle(o));
  } else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    name = "float64";
  } else if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    name = "int64";
  } else if (PyType_Check(o) && py::hasattr(o, "__name__")) {
    name = py::cast<std::string>(py::handle(o).attr("__name__"));
  } else if (py::hasattr(o, "name") && py::hasattr(o, "itemsize")) {
    name = py::cast<std::string>(py::str(py::handle(o).attr("name")));
    // 1.x writes bfloat16 as np.dtype([('bfloat16', np.uint16)]).
    const py::object fields = py::getattr(o, "names", py::none());
    if (py::isinstance<py::tuple>(fields) && py::len(fields) == 1)
      name = py::cast<std::string>(py::str(fields[py::int_(0)]));
  }
  if (name == "bool_") name = "bool";
  std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype && PyUnicode_Check(o)) {  // NumPy's other names: "half", "f4", "<i8"
    try {
      const py::object numpy = py::module_::import("numpy").attr("dtype")(name);
      dtype = dtype_from_name(py::cast<std::string>(numpy.attr("name")));
    } catch (const py::error_already_set&) {
      return std::nullopt;
    }
  }
  if (dtype && PyType_Check(o)) {
    Py_INCREF(o);
    known.emplace(o, *dtype);
  }
  return dtype;
}

DType require_dtype(py::handle o, const char* who) {
  if (auto d = dtype_from_python(o.ptr())) return *d;
  fail(ErrorKind::kDType, who, ": dtype must be a NumPy dtype or its name, got ",
       std::string(py::repr(o)));
}

namespace {

// Converts all objects except sequences. Returns false for a sequence. `value` must initially
// contain None.
bool read_plain(PyObject* o, const std::string& op, const std::string& param, AttrValue& value) {
  const auto read = [&](auto result) {
    value.emplace<decltype(result)>(std::move(result));
    return true;
  };
  if (o == Py_None) return true;
  if (PyBool_Check(o)) return read(o == Py_True);
  if (PyLong_Check(o)) {
    int overflow = 0;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow > 0) {
      const unsigned long long whole = PyLong_AsUnsignedLongLong(o);
      if (!PyErr_Occurred()) return read(static_cast<uint64_t>(whole));
      PyErr_Clear();
    }
    if (overflow) {
      const double wide = PyLong_AsDouble(o);
      if (PyErr_Occurred()) {
        PyErr_Format(PyExc_OverflowError,
                     "%s: parameter %s must fit into a double, got a larger int", op.c_str(),
                     param.c_str());
        throw py::error_already_set();
      }
      return read(wide);
    }
    return read(static_cast<int64_t>(v));
  }
  if (PyFloat_Check(o)) return read(PyFloat_AS_DOUBLE(o));
  if (PyUnicode_Check(o)) {
    Py_ssize_t n = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &n);
    if (!text) throw py::error_already_set();
    return read(std::string(text, static_cast<size_t>(n)));
  }
  if (PyTuple_Check(o) || PyList_Check(o)) return false;
  if (py::isinstance<PyContext>(o)) return read(str(py::cast<PyContext&>(py::handle(o)).device));
  if (!is_any_array(o)) {
    if (auto d = dtype_from_python(o)) return read(*d);
    if (PyIndex_Check(o)) {
      py::object i = py::reinterpret_steal<py::object>(PyNumber_Index(o));
      // A TypeError means that the object is not an integer. Other errors describe a bad integer
      // and are raised.
      if (!i && !PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
      if (!i) PyErr_Clear();
      if (i) return read_plain(i.ptr(), op, param, value);
    }
    if (PyNumber_Check(o)) {
      py::object f = py::reinterpret_steal<py::object>(PyNumber_Float(o));
      if (f) return read(PyFloat_AS_DOUBLE(f.ptr()));
      PyErr_Clear();
    }
    if (PySequence_Check(o)) return false;
  }
  fail(ErrorKind::kType, op, ": parameter ", param,
       " must be a number, string, tuple or dtype, got ", Py_TYPE(o)->tp_name);
}

// Converts an element of a sequence. Rejects nested sequences without reading them, because a list
// may contain itself.
AttrValue scalar_from_python(PyObject* o, const std::string& op, const std::string& param) {
  AttrValue value;
  MX_CHECK_KIND(read_plain(o, op, param, value), ErrorKind::kType, op, ": parameter ", param,
                " must be a sequence of numbers, got an element of type ", Py_TYPE(o)->tp_name);
  return value;
}

}  // namespace

AttrValue attr_from_python(PyObject* o, const std::string& op, const std::string& param) {
  AttrValue value;
  if (!read_plain(o, op, param, value)) value = sequence_from_python(o, op, param);
  return value;
}

py::object attr_to_python(const AttrValue& value) {
  struct Convert {
    py::object operator()(std::monostate) const { return py::none(); }
    py::object operator()(bool v) const { return py::bool_(v); }
    py::object operator()(int64_t v) const { return py::int_(v); }
    py::object operator()(uint64_t v) const { return py::int_(v); }
    py::object operator()(double v) const { return py::float_(v); }
    py::object operator()(const std::string& v) const { return py::str(v); }
    py::object operator()(const Shape& v) const { return shape_to_python(v); }
    py::object operator()(const std::vector<double>& v) const {
      py::tuple t(v.size());
      for (size_t i = 0; i < v.size(); ++i) t[i] = v[i];
      return t;
    }
    py::object operator()(const OptionalInts& v) const {
      py::tuple t(v.size());
      for (size_t i = 0; i < v.size(); ++i)
        t[i] = v[i] ? py::object(py::int_(*v[i])) : py::object(py::none());
      return t;
    }
    py::object operator()(DType v) const { return py::str(dtype_name(v)); }
  };
  return std::visit(Convert{}, value);
}

Device parse_device(const std::string& text) {
  const size_t open = text.find('(');
  const std::string name = text.substr(0, open);
  int index = 0;
  bool right = true;
  if (open != std::string::npos) {
    const char *const first = text.data() + open + 1, *const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, index);
    right = error == std::errc() && index >= 0 && std::string_view(end, last) == ")";
  }
  for (DeviceType t :
       {DeviceType::kCPU, DeviceType::kCUDA, DeviceType::kPinned, DeviceType::kShared})
    if (right && name == device_type_name(t)) return {t, index};
  fail(ErrorKind::kDevice,
       "context must be cpu(i), gpu(i) or cpu_pinned(i) with i of at least 0, got '", text, "'");
}

Device current_device() { return device_stack.empty() ? default_device : device_stack.back(); }

Device device_from_python(py::handle o) {
  if (o.is_none()) return current_device();
  if (py::isinstance<PyContext>(o)) return py::cast<PyContext&>(o).device;
  if (py::isinstance<py::str>(o)) return parse_device(py::cast<std::string>(o));
  fail(ErrorKind::kType, "ctx must be a context such as mx.cpu(0), got ", std::string(py::repr(o)));
}

Shape shape_from_python(py::handle o, const char* who) {
  if (Shape shape; read_ints(o.ptr(), shape)) return shape;
  const AttrValue v = attr_from_python(o.ptr(), who, "shape");
  try {
    return attr_to_ints(v);
  } catch (const AttrMismatch& m) {
    throw_attr_mismatch(who, "shape", v, m);
  }
}

py::tuple shape_to_python(const Shape& shape) {
  PyObject* t = PyTuple_New(std::max(shape.ndim(), 0));  // ndim is -1 if the shape is unknown
  if (!t) throw py::error_already_set();
  for (int i = 0; i < shape.ndim(); ++i) PyTuple_SET_ITEM(t, i, PyLong_FromLongLong(shape[i]));
  return py::reinterpret_steal<py::tuple>(t);
}

py::object device_to_python(const Device& device) {
  // The list is leaked, because its objects exist as long as the interpreter. The GIL guards the
  // list.
  static auto* known = new std::vector<std::pair<Device, PyObject*>>;
  for (auto& [made, object] : *known) {
    if (!(made == device)) continue;
    // Programs may assign to attributes of a Context. Such a changed object must not be returned
    // again.
    if (py::cast<PyContext&>(py::handle(object)).device == device)
      return py::reinterpret_borrow<py::object>(object);
    Py_DECREF(object);
    object = py::cast(PyContext{device}).release().ptr();
    return py::reinterpret_borrow<py::object>(object);
  }
  py::object context = py::cast(PyContext{device});
  known->emplace_back(device, context.inc_ref().ptr());
  return context;
}

void bind_device(py::module_& m) {
  py::class_<PyContext>(m, "Context", py::dynamic_attr(),
                        "A device: mx.cpu(0), mx.gpu(1). As a with-block it becomes the thread's "
                        "current device.")
      .def(py::init([](py::object type, int id) {
             if (py::isinstance<PyContext>(type)) return py::cast<PyContext>(type);
             MX_CHECK_KIND(py::isinstance<py::str>(type), ErrorKind::kType,
                           "Context: device_type must be a name such as 'cpu', got ",
                           Py_TYPE(type.ptr())->tp_name);
             return make_context(parse_device(py::cast<std::string>(type)).type, id);
           }),
           py::arg("device_type"), py::arg("device_id") = 0)
      .def_property_readonly("device_type",
                             [](const PyContext& c) { return device_type_name(c.device.type); })
      .def_property(
          "device_typeid", [](const PyContext& c) { return static_cast<int>(c.device.type); },
          [](PyContext& c, int code) { c = make_context(device_type_of(code), c.device.index); })
      .def_property(
          "device_id", [](const PyContext& c) { return c.device.index; },
          [](PyContext& c, int index) { c = make_context(c.device.type, index); })
      .def("__eq__",
           [](const PyContext& a, py::object b) {
             return py::isinstance<PyContext>(b) && a.device == py::cast<PyContext&>(b).device;
           })
      .def("__hash__",
           [](const PyContext& c) {
             return static_cast<int>(c.device.type) * 1024 + c.device.index;
           })
      .def("__str__", [](const PyContext& c) { return str(c.device); })
      .def("__repr__", [](const PyContext& c) { return str(c.device); })
      .def(
          "empty_cache", [](const PyContext& c) { release_cached_memory(c.device); },
          "Give cached memory of the device back to the system.")
      .def("__enter__",
           [](py::object self) {
             device_stack.push_back(py::cast<PyContext&>(self).device);
             return self;
           })
      .def("__exit__",
           [](const PyContext& c, const py::args&) {
             MX_CHECK(!device_stack.empty(), "Context.__exit__: ", c.device,
                      " must be entered in this thread before it is left");
             device_stack.pop_back();
           })
      .def_property_static(
          "default_ctx", [](const py::object&) { return PyContext{current_device()}; },
          [](const py::object&, const PyContext& c) {
            (device_stack.empty() ? default_device : device_stack.back()) = c.device;
          },
          "The context of this thread; what is assigned holds until the `with` block ends.")
      .def(py::pickle(
          [](const PyContext& c) {
            return py::make_tuple(device_type_name(c.device.type), c.device.index);
          },
          [](const py::object& state) { return context_of_state(state); }));
  m.def(
      "num_gpus", [] { return accelerator() ? accelerator()->count() : 0; },
      "Number of CUDA devices of this machine; 0 without CUDA in the build or without a driver.");
  m.def(
      "gpu_memory_info",
      [](int device_id) -> std::pair<size_t, size_t> {
        const DeviceMemory memory =
            require_accelerator("gpu_memory_info", device_id).memory(device_id);
        return {memory.free, memory.total};
      },
      py::arg("device_id"), "(free, total) bytes of a CUDA device.");
  m.def(
      "gpu_properties",
      [](int device_id) {
        const AcceleratorInfo i = require_accelerator("gpu_properties", device_id).info(device_id);
        return py::dict(py::arg("name") = i.name, py::arg("architecture") = i.architecture,
                        py::arg("multiprocessors") = i.multiprocessors);
      },
      py::arg("device_id"), "Name, architecture and multiprocessors of a CUDA device.");
  m.def("set_package_folders", &set_package_folders, py::arg("folders"),
        "Tell where Python's packages lie, in which libraries of GPUs are looked for.");
  m.def("cuda_library", &cuda_library,
        "Path of the CUDA plug-in, which need not be loadable; empty if it is not installed.");
  m.def("set_lapack_library", &lapack::set_library, py::arg("path"),
        "Set the library that decompositions of matrices use; it has LAPACK or is linked to it.");
  m.def(
      "why_no_gpu", [] { return accelerator_absence(); },
      "Why num_gpus() is 0: build, driver or libraries; empty when it is not.");
  m.def(
      "memory_stats",
      [](const py::object& ctx) {
        const MemoryStats s = memory_stats(device_from_python(ctx));
        return py::dict(py::arg("in_use") = s.in_use, py::arg("cached") = s.cached,
                        py::arg("peak") = s.peak, py::arg("limit") = s.limit);
      },
      py::arg("ctx") = py::none(), "Bytes of a device's memory: in_use, cached, peak, limit.");
  m.def(
      "current_context", [] { return device_to_python(current_device()); },
      "The device on which this thread creates arrays.");
}

}  // namespace mxlite::python
