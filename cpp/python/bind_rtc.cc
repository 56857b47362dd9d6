// Kernels compiled at run time, for mxlite.rtc.
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/core/accelerator.h"
#include "cpp/engine/write_line.h"
#include "cpp/ops/rtc/launch.h"
#include "cpp/python/bind.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

// The Python object refers to the DeviceProgram, which is never destroyed.
struct RtcProgram {
  rtc::DeviceProgram* program;
};
struct RtcKernel {
  rtc::DeviceProgram* program;
  std::string name;
  std::vector<bool> is_const;  // indexed by parameter
};

RtcProgram compile(std::string source, std::vector<std::string> options,
                   std::vector<std::string> exports) {
  require_accelerator("CudaModule", 0);
  const GilRelease released;
  auto& program =
      rtc::DeviceProgram::get({std::move(source), std::move(options), std::move(exports)});
  program.compile_for(0);
  return {&program};
}

// Converts an argument. It is an array, or bytes that contain a number of the parameter's type.
rtc::LaunchArgument argument_from_python(const RtcKernel& kernel, size_t i, py::handle o,
                                         Device device) {
  rtc::LaunchArgument argument;
  argument.is_const = kernel.is_const[i];
  if (py::isinstance<py::bytes>(o)) {
    const auto bytes = py::cast<std::string>(o);
    MX_ASSERT(bytes.size() <= argument.number.size());
    std::memcpy(argument.number.data(), bytes.data(), bytes.size());
    argument.number_bytes = bytes.size();
    return argument;
  }
  argument.array = py::cast<NDArrayRef>(o);
  const NDArray& a = *argument.array;
  const std::string who = str("CudaKernel ", kernel.name, ": argument ", i);
  MX_CHECK_KIND(!a.is_traced(), ErrorKind::kNotSupported, who,
                " must have data, got an array of a trace; launch kernels outside of hybridized "
                "blocks");
  MX_CHECK_KIND(a.device() == device, ErrorKind::kDevice, who,
                " must be on the device of the launch, ", device, ", got an array on ", a.device(),
                "; copy it with as_in_context");
  MX_CHECK(a.contiguous(), who, " of shape ", a.shape(),
           " must be contiguous; pass a copy (x.copy())");
  if (!argument.is_const) autograd::check_writable(who.c_str(), argument.array);
  return argument;
}

using Dims = std::tuple<unsigned, unsigned, unsigned>;
std::array<unsigned, 3> array_of(const Dims& dims) {
  return {std::get<0>(dims), std::get<1>(dims), std::get<2>(dims)};
}

void launch(const RtcKernel& kernel, int device_id, const std::vector<py::object>& arguments,
            const Dims& grid, const Dims& block, unsigned shared) {
  const Device device{DeviceType::kCUDA, device_id};
  require_accelerator("CudaKernel", device_id);
  MX_ASSERT(arguments.size() == kernel.is_const.size());
  std::vector<rtc::LaunchArgument> converted;
  for (size_t i = 0; i < arguments.size(); ++i)
    converted.push_back(argument_from_python(kernel, i, arguments[i], device));
  const engine::Origin origin = current_origin();
  const engine::WriteLine write_line(origin);
  const GilRelease released;
  rtc::launch_on_arrays(*kernel.program, kernel.name, device_id,
                        {array_of(grid), array_of(block), shared}, std::move(converted), origin);
}

}  // namespace

void bind_rtc(py::module_& m) {
  py::class_<RtcKernel>(m, "RtcKernel", "A kernel of a compiled program.")
      .def("launch", &launch, py::arg("device_id"), py::arg("arguments"), py::arg("grid"),
           py::arg("block"), py::arg("shared"),
           "Launch on arrays, and on numbers given as the bytes of the kernel's parameters.");
  py::class_<RtcProgram>(m, "RtcProgram", "A compiled CUDA program.")
      .def(py::init(&compile), py::arg("source"), py::arg("options"), py::arg("exports"))
      .def(
          "kernel",
          [](const RtcProgram& p, std::string name, std::vector<bool> is_const) {
            return RtcKernel{p.program, std::move(name), std::move(is_const)};
          },
          py::arg("name"), py::arg("is_const"), "A kernel by name; is_const by parameter.");
}

}  // namespace mxlite::python
