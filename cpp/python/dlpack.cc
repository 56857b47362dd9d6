#include "cpp/python/dlpack.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cpp/core/accelerator.h"
#include "cpp/python/gil.h"

namespace mxlite::python {

namespace py = pybind11;

// The DLPack specification fixes this layout.
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  int32_t device_type, device_id, ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* manager;
  void (*deleter)(DLManagedTensor*);
};
namespace {

enum DeviceCode : int32_t { kHost = 1, kGpu = 2, kPinnedHost = 3 };
enum Code : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };

struct Exported {
  NDArrayRef array;
  std::vector<int64_t> shape, strides;
  DLManagedTensor managed;
};

uint8_t code_of(DType d) {
  switch (d) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
      return kFloat;
    case DType::kBFloat16:
      return kBfloat;
    case DType::kBool:
      return kBool;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return kInt;
    default:
      return kUInt;
  }
}

std::optional<DType> dtype_of(DLDataType t) {
  if (t.lanes != 1) return std::nullopt;
  for (int code = 0; code <= static_cast<int>(DType::kBFloat16); ++code) {
    const auto d = static_cast<DType>(code);
    if (code_of(d) == t.code && dtype_size(d) * 8 == t.bits) return d;
  }
  return std::nullopt;
}

// Takes the GIL, because the producer's deleter may run Python.
void release_managed(DLManagedTensor* managed) {
  if (!managed->deleter || !may_take_gil()) return;
  const GilAcquire acquired;
  managed->deleter(managed);
}

void delete_exported(DLManagedTensor* t) {
  const std::unique_ptr<Exported> exported(static_cast<Exported*>(t->manager));
  const Device device = exported->array->device();
  if (device.type != DeviceType::kCUDA) return;
  // Waits for the consumer's kernels, because the reuse of this memory is not ordered with the
  // consumer's streams.
  try {
    accelerator()->synchronize(device.index);
  } catch (const Error&) {  // the device has failed, so no work runs there
  }
}

// Imports an array that mxlite has exported. Both arrays share storage, so the engine orders tasks
// on them.
NDArrayRef take_back(DLManagedTensor* managed) {
  const std::unique_ptr<Exported> exported(static_cast<Exported*>(managed->manager));
  return exported->array->detached();
}

Device device_of(const DLTensor& t) {
  if (t.device_type == kGpu) {
    const Device device{DeviceType::kCUDA, t.device_id};
    require_accelerator("from_dlpack", t.device_id);
    return device;
  }
  MX_CHECK_KIND(
      t.device_type == kHost || t.device_type == kPinnedHost, ErrorKind::kDevice,
      "from_dlpack: device type must be that of host memory (1, 3) or CUDA memory (2), got ",
      t.device_type);
  return {};
}

}  // namespace

std::pair<int32_t, int32_t> dlpack_device(Device device) {
  if (device.type != DeviceType::kCUDA) return {kHost, 0};
  return {kGpu, device.index};
}

DLManagedTensor* export_dlpack(const NDArrayRef& array) {
  auto* e = new Exported;
  // Copies the handle, because other memory may be assigned to the caller's handle while the
  // consumer uses the array.
  e->array = array->detached();
  e->shape.assign(array->shape().begin(), array->shape().end());
  e->strides.assign(array->strides().begin(), array->strides().end());
  const auto [device_type, device_id] = dlpack_device(array->device());
  e->managed.tensor = {
      array->data(),
      device_type,
      device_id,
      array->shape().ndim(),
      {code_of(array->dtype()), static_cast<uint8_t>(dtype_size(array->dtype()) * 8), 1},
      e->shape.data(),
      e->strides.data(),
      0};
  e->managed.manager = e;
  e->managed.deleter = &delete_exported;
  return &e->managed;
}

py::capsule to_dlpack(const NDArrayRef& array) {
  DLManagedTensor* managed = export_dlpack(array);
  PyObject* capsule = PyCapsule_New(managed, "dltensor", [](PyObject* o) {
    // A consumer renames the capsule. From then on, the consumer owns the tensor.
    if (!PyCapsule_IsValid(o, "dltensor")) return;
    auto* t = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(o, "dltensor"));
    t->deleter(t);
  });
  if (!capsule) {
    managed->deleter(managed);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::capsule>(capsule);
}

NDArrayRef from_dlpack(const py::capsule& capsule) {
  const char* name = PyCapsule_GetName(capsule.ptr());
  MX_CHECK(PyCapsule_IsValid(capsule.ptr(), "dltensor"),
           "from_dlpack: the capsule must be an unused 'dltensor', got a capsule named '",
           name ? name : "", "'");
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  return import_dlpack(managed, [&] { PyCapsule_SetName(capsule.ptr(), "used_dltensor"); });
}

NDArrayRef import_dlpack(DLManagedTensor* managed, const std::function<void()>& taken) {
  if (managed->deleter == &delete_exported) {
    taken();
    return take_back(managed);
  }
  const DLTensor& t = managed->tensor;
  const Device device = device_of(t);
  const std::optional<DType> dtype = dtype_of(t.dtype);
  MX_CHECK_DTYPE(dtype, "from_dlpack: element type code ", int{t.dtype.code}, " with ",
                 int{t.dtype.bits}, " bits and ", t.dtype.lanes, " lanes is not supported");
  MX_CHECK_SHAPE(t.ndim == 0 || t.shape, "from_dlpack: the tensor must have a shape, got none for ",
                 t.ndim, " dimensions");
  const Shape shape(std::span<const int64_t>(t.shape, static_cast<size_t>(t.ndim)));
  const Strides strides =
      t.strides ? Strides(std::span<const int64_t>(t.strides, static_cast<size_t>(t.ndim)))
                : contiguous_strides(shape);
  int64_t last = 0;
  for (int i = 0; i < shape.ndim(); ++i) {
    MX_CHECK(strides[i] >= 0 || shape[i] <= 1, "from_dlpack: strides must be at least 0, got ",
             strides);
    last = checked_add(last, checked_mul(std::max<int64_t>(shape[i] - 1, 0), strides[i]));
  }
  const auto address = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
  MX_CHECK(t.data || shape.size() == 0,
           "from_dlpack: the tensor must have memory, got none for shape ", shape);
  MX_CHECK(address % dtype_size(*dtype) == 0,
           "from_dlpack: the address must be a multiple of the element size; copy the tensor");
  taken();
  StorageRef storage = Storage::wrap(device, static_cast<std::byte*>(t.data) + t.byte_offset,
                                     static_cast<size_t>(last + 1) * dtype_size(*dtype),
                                     [managed] { release_managed(managed); });
  if (device.type == DeviceType::kCUDA)
    // __dlpack__ was called without a stream, so the producer's work may still be running.
    accelerator()->synchronize(device.index);
  return NDArray::view_of(std::move(storage), {shape, *dtype}, strides, 0);
}

}  // namespace mxlite::python
