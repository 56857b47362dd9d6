// Sums of arrays on several GPUs, for key-value stores.
#include <pybind11/stl.h>

#include "cpp/kvstore/comm/device_group.h"
#include "cpp/kvstore/comm/device_reduce.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"

namespace mxlite::python {

namespace py = pybind11;

void bind_device_group(py::module_& m) {
  m.def("has_device_groups", &has_device_groups,
        "Whether there is a GPU, and NCCL in the CUDA plug-in: mx.runtime.Features()['NCCL'].");
  m.def(
      "sum_on_devices",
      [](const std::vector<NDArrayRef>& arrays) { all_reduce_on_devices(arrays, ReduceOp::kSum); },
      py::arg("arrays"),
      "Every array becomes the sum of all; one for each GPU, in the background.");
}

}  // namespace mxlite::python
