#include "cpp/python/registration.h"

#include <new>
#include <unordered_map>

namespace mxlite::python {
namespace {

namespace detail = pybind11::detail;
using Initialize = void (*)(detail::instance*, const void*);

// pybind11's own init function of each class; not changed after the module's import.
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

// An object without an entry in pybind11's table works normally, except that a function which
// returns a pointer or reference to it would make a second Python object.
void initialize(detail::instance* object, const void* holder) {
  const Initialize original = original_of(Py_TYPE(reinterpret_cast<PyObject*>(object)));
  try {
    original(object, holder);
  } catch (const std::bad_alloc&) {
    auto value = object->get_value_and_holder();
    value.set_instance_registered(true);
    original(object, holder);  // makes the holder
    value.set_instance_registered(false);
  }
}

}  // namespace

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

}  // namespace mxlite::python
