// Functions for saved files: checksums, states of the random generators, arrays in .params files.
#include <pybind11/stl.h>

#include <tuple>

#include "cpp/base/crc32c.h"
#include "cpp/core/host_memory.h"
#include "cpp/core/random_states.h"
#include "cpp/graph/trace.h"
#include "cpp/ndarray/params_file.h"
#include "cpp/python/bind.h"
#include "cpp/python/contiguous_bytes.h"
#include "cpp/python/convert.h"
#include "cpp/python/gil.h"
#include "cpp/python/py_array.h"
#include "cpp/python/remote_file.h"
#include "cpp/sparse/parts.h"

namespace mxlite::python {
namespace {

uint32_t checksum(const py::buffer& data, uint32_t before) {
  const ContiguousBytes bytes(data, "crc32c");
  const GilRelease released;
  return crc32c(bytes.get().data(), bytes.get().size(), before);
}

NDArrayRef on_device(const NDArrayRef& array, Device device) {
  return array->device() == device ? array : copy_to_device(array, device);
}

// Copies a loaded array to the thread's current device and wraps it in its Python class.
py::object loaded(NDArrayRef array) {
  if (!array) return py::none();
  const Device device = current_device();
  if (!array->is_sparse())
    return py::reinterpret_steal<py::object>(wrap_array(on_device(array, device)));
  SparseParts& parts = sparse_parts(*array);
  if (array->device() != device) {
    const NDArrayRef values = on_device(parts.values, device);
    const NDArrayRef indices = on_device(parts.indices, device);
    array = parts.indptr ? make_csr(array->spec(), values, indices, on_device(parts.indptr, device))
                         : make_row_sparse(array->spec(), values, indices, parts.form);
  }
  const bool unordered = parts.form == SparseForm::kRows;
  py::object object = py::reinterpret_steal<py::object>(wrap_array(std::move(array)));
  if (unordered) object.attr("_was_unordered") = true;
  return object;
}

// Calls read(source) without the GIL, where `source` reads the bytes of `data`.
template <class Read>
auto read_buffer(const py::object& data, const std::string& name, Read read) {
  const ContiguousBytes bytes(data, "load");
  const GilRelease released;
  return read(bytes_in_memory(bytes.get(), name));
}

// Returns a dict of arrays by name, or a list if the file has no names.
py::object to_python(const NamedArrays& found) {
  if (found.names.empty()) {
    py::list list;
    for (const NDArrayRef& array : found.arrays) list.append(loaded(array));
    return list;
  }
  py::dict dict;
  for (size_t i = 0; i < found.names.size(); ++i)
    dict[py::str(found.names[i])] = loaded(found.arrays[i]);
  return dict;
}

py::object load_descriptor(int descriptor, size_t size, const std::string& name) {
  NamedArrays found;
  {
    const GilRelease released;
    found = read_params(bytes_of_file(descriptor, size, name));
  }
  return to_python(found);
}

py::object load_remote(const py::object& file, const std::string& name) {
  const ByteSource source = remote_source(file, name);
  NamedArrays found;
  {
    const GilRelease released;
    found = read_params(source);
  }
  return to_python(found);
}

// Returns the array in the form that write_params needs: in host memory and, for sparse arrays,
// with normalized parts.
NDArrayRef saved(const NDArrayRef& array) {
  if (array->is_traced()) graph::Trace::fail_read(*array, "save");
  if (!array->is_sparse())
    return is_host_memory(array->device()) ? array : copy_to_device(array, {});
  const SparseParts& parts = sparse::normal_parts(array);
  if (is_host_memory(array->device())) return array;
  const NDArrayRef values = copy_to_device(parts.values, {});
  const NDArrayRef indices = copy_to_device(parts.indices, {});
  return parts.indptr ? make_csr(array->spec(), values, indices, copy_to_device(parts.indptr, {}))
                      : make_row_sparse(array->spec(), values, indices);
}

void save(const std::vector<py::object>& arrays, const std::vector<std::string>& names,
          const py::function& write) {
  std::vector<NDArrayRef> ready;
  for (const py::object& array : arrays) ready.push_back(saved(any_array_of(array, "save")));
  write_params(ready, names, [&](std::span<const std::byte> bytes) {
    write(py::memoryview::from_memory(bytes.data(), static_cast<py::ssize_t>(bytes.size())));
  });
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

// Calls the function with random generators seeded like mx.random.seed(seed). The states of the
// generators do not change for code outside of this call.
py::object call_seeded(uint64_t seed, const py::object& function, const py::object& argument) {
  const RandomReplayScope own({});
  seed_random(seed);
  return function(argument);
}

}  // namespace

void bind_checkpoint(py::module_& m) {
  m.def("crc32c", checksum, py::arg("data"), py::arg("before") = 0,
        "CRC32C of contiguous bytes; `before` is the checksum of preceding bytes.");
  m.def("load_remote", load_remote, py::arg("file"), py::arg("name"),
        "The arrays of a mxlite._files.remote.RemoteFile, as load_descriptor.");
  m.def("load_descriptor", load_descriptor, py::arg("descriptor"), py::arg("size"), py::arg("name"),
        "The list or dict of arrays of an open .params file; name is its name in errors.");
  m.def(
      "load_buffer",
      [](const py::object& data, const std::string& name) {
        return to_python(read_buffer(data, name, read_params));
      },
      py::arg("data"), py::arg("name"), "The same of bytes in memory.");
  m.def(
      "load_array",
      [](const py::object& data, const std::string& name) {
        return loaded(read_buffer(data, name, read_array));
      },
      py::arg("data"), py::arg("name"),
      "The array of one blob, as MXNet's pickles hold it; None for an array without value.");
  m.def("save_arrays", save, py::arg("arrays"), py::arg("names"), py::arg("write"),
        "Call write(memoryview) with the consecutive bytes of a .params file; names is empty for a "
        "list. A memoryview is valid during the call.");
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
