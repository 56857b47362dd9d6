// DLPack, the exchange format of array libraries (dmlc.github.io/dlpack, structures of ABI 0.8).
#pragma once
#include <pybind11/pybind11.h>

#include <functional>
#include <utility>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::python {

// Returns DLPack's device type and number. All host memory, including pinned memory, is kDLCPU.
std::pair<int32_t, int32_t> dlpack_device(Device device);

struct DLManagedTensor;

// Returns a tensor that uses the array's memory. The tensor's deleter must be called once.
DLManagedTensor* export_dlpack(const NDArrayRef& array);
// Returns an array that owns the tensor once `taken` has been called. Errors about the tensor are
// thrown before that call.
NDArrayRef import_dlpack(DLManagedTensor* managed, const std::function<void()>& taken);

pybind11::capsule to_dlpack(const NDArrayRef& array);
NDArrayRef from_dlpack(const pybind11::capsule& capsule);

}  // namespace mxlite::python
