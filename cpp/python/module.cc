#include <new>
#include <unordered_map>

#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"
#include "cpp/python/py_server.h"
#include "cpp/python/text_signatures.h"

namespace mxlite::python {
namespace {

namespace detail = pybind11::detail;
using Initialize = void (*)(detail::instance*, const void*);

// pybind11's original init function of each class. The map does not change after the module's
// import.
std::unordered_map<PyTypeObject*, Initialize>& originals() {
  static auto& map = *new std::unordered_map<PyTypeObject*, Initialize>;
  return map;
}

Initialize original_of(PyTypeObject* type) {
  for (; type; type = type->tp_base) {
    const auto found = originals().find(type);
    if (found != originals().end()) return found->second;
  }
  return nullptr;
}

// An object that is missing in pybind11's instance table works normally with one exception: a
// function that returns a pointer or reference to the object creates a second Python object.
void initialize(detail::instance* object, const void* holder) {
  const Initialize original = original_of(Py_TYPE(reinterpret_cast<PyObject*>(object)));
  try {
    original(object, holder);
  } catch (const std::bad_alloc&) {
    auto value = object->get_value_and_holder();
    value.set_instance_registered(true);
    original(object, holder);  // creates the holder
    value.set_instance_registered(false);
  }
}

// Lets the module's classes tolerate bad_alloc while pybind11 adds an object to its instance table.
// In pybind11, this exception ends the process or frees the object twice.
void make_registration_optional(const pybind11::module_& module) {
  for (const auto& [name, value] : module.attr("__dict__").cast<pybind11::dict>()) {
    if (!PyType_Check(value.ptr())) continue;
    auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    detail::type_info* const info = detail::get_type_info(type);
    if (!info || info->type != type) continue;
    originals()[type] = info->init_instance;
    info->init_instance = &initialize;
  }
}

}  // namespace
}  // namespace mxlite::python

PYBIND11_MODULE(_core, m) {
  using namespace mxlite::python;  // NOLINT: this folder's own names
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c"))
    throw pybind11::import_error("mxlite needs a CPU with AVX2, FMA and F16C (x86-64-v3)");
  m.doc() = "Core of mxlite: arrays, operators, autograd, engine.";
  init_array_type();
  m.add_object("NDArray", pybind11::reinterpret_borrow<pybind11::object>(
                              reinterpret_cast<PyObject*>(array_type)));
  import_numpy_types();
  for (const auto bind : {bind_errors,       bind_device,
                          bind_array,        bind_operators,
                          bind_numpy,        bind_ops,
                          bind_autograd,     bind_graph,
                          bind_control_flow, bind_sparse,
                          bind_amp,          bind_symbol,
                          bind_recorded,     bind_custom,
                          bind_checkpoint,   bind_engine,
                          bind_comm,         bind_buckets,
                          bind_device_group, bind_server,
                          bind_profiler,     bind_io,
                          bind_record,       bind_rtc,
                          bind_text_rows,    bind_image_pipeline,
                          bind_embedding,    bind_searching})
    bind(m);
  make_registration_optional(m);
  add_text_signatures(m);
}
