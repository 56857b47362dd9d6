#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"
#include "cpp/python/py_server.h"
#include "cpp/python/registration.h"
#include "cpp/python/text_signatures.h"

PYBIND11_MODULE(_core, m) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("f16c"))
    throw pybind11::import_error("mxlite needs a CPU with AVX2, FMA and F16C (x86-64-v3)");
  m.doc() = "Core of mxlite: arrays, operators, autograd, engine.";
  mxlite::python::init_array_type();
  m.add_object("NDArray", pybind11::reinterpret_borrow<pybind11::object>(
                              reinterpret_cast<PyObject*>(mxlite::python::array_type)));
  mxlite::python::bind_errors(m);
  mxlite::python::bind_device(m);
  mxlite::python::bind_array(m);
  mxlite::python::bind_operators(m);
  mxlite::python::import_numpy_types();
  mxlite::python::bind_numpy(m);
  mxlite::python::bind_ops(m);
  mxlite::python::bind_autograd(m);
  mxlite::python::bind_graph(m);
  mxlite::python::bind_control_flow(m);
  mxlite::python::bind_sparse(m);
  mxlite::python::bind_amp(m);
  mxlite::python::bind_symbol(m);
  mxlite::python::bind_recorded(m);
  mxlite::python::bind_custom(m);
  mxlite::python::bind_checkpoint(m);
  mxlite::python::bind_engine(m);
  mxlite::python::bind_comm(m);
  mxlite::python::bind_buckets(m);
  mxlite::python::bind_device_group(m);
  mxlite::python::bind_server(m);
  mxlite::python::bind_profiler(m);
  mxlite::python::bind_io(m);
  mxlite::python::bind_record(m);
  mxlite::python::bind_rtc(m);
  mxlite::python::bind_text_rows(m);
  mxlite::python::bind_image_pipeline(m);
  mxlite::python::make_registration_optional(m);
  mxlite::python::add_text_signatures(m);
}
