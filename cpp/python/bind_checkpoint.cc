// Functions for checkpoints: checksums and states of the random generators.
#include <tuple>

#include "cpp/base/crc32c.h"
#include "cpp/core/random_states.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"

namespace mxlite::python {
namespace {

uint32_t checksum(const py::buffer& data, uint32_t before) {
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw py::error_already_set();
  {
    const GilRelease released;
    before = crc32c(view.buf, static_cast<size_t>(view.len), before);
  }
  PyBuffer_Release(&view);
  return before;
}

py::tuple states_to_python() {
  const AllRandomStates all = random_states();
  py::list devices;
  for (const auto& [device, state] : all.devices)
    devices.append(
        py::make_tuple(static_cast<int>(device.type), device.index, state.seed, state.offset));
  return py::make_tuple(all.seed, devices);
}

void states_from_python(uint64_t seed, const py::list& devices) {
  AllRandomStates all{seed, {}};
  for (const py::handle entry : devices) {
    const auto [type, index, own_seed, offset] =
        entry.cast<std::tuple<int, int, uint64_t, uint64_t>>();
    all.devices.push_back(
        {Device{static_cast<DeviceType>(type), index}, RandomState{own_seed, offset}});
  }
  set_random_states(all);
}

// Calls a function that draws the random numbers of mx.random.seed(seed); random numbers drawn
// outside of this call do not change.
py::object call_seeded(uint64_t seed, const py::object& function, const py::object& argument) {
  const RandomReplayScope own({});
  seed_random(seed);
  return function(argument);
}

}  // namespace

void bind_checkpoint(py::module_& m) {
  m.def("crc32c", checksum, py::arg("data"), py::arg("before") = 0,
        "CRC32C of contiguous bytes; `before` is the checksum of preceding bytes.");
  m.def("random_states", states_to_python,
        "(seed, [(device type, index, seed, offset)]): the states of all generators.");
  m.def("set_random_states", states_from_python, py::arg("seed"), py::arg("devices"),
        "Restore the states that random_states returned.");
  m.def("draw_loading_seed", draw_loading_seed,
        "The seed of one pass over a data set; the generators of the devices stay as they are.");
  m.def("call_seeded", call_seeded, py::arg("seed"), py::arg("function"), py::arg("argument"),
        "function(argument), with a random generator of its own.");
}

}  // namespace mxlite::python
