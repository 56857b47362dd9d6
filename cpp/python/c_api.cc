// The functions of MXNet 1.x's C library that other programs call through mxnet.base._LIB. They
// return 0, or -1 after an error, whose text MXGetLastError returns. MXGetLastError and the
// functions of c_predict_api.h are in cpp/predict, because they need no Python.
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cpp/autograd/call.h"
#include "cpp/base/c_errors.h"
#include "cpp/core/accelerator.h"
#include "cpp/core/random.h"
#include "cpp/core/threads.h"
#include "cpp/io/record_file.h"
#include "cpp/ops/invoke.h"
#include "cpp/ops/op_schema.h"
#include "cpp/python/array_handles.h"
#include "cpp/python/device_memory.h"
#include "cpp/python/dlpack.h"

namespace mxlite::python {
namespace {

// Returns the array of a handle. Throws unless the array has values in one block of memory.
NDArrayRef dense_of(void* handle, const char* who) {
  NDArrayRef array(&pointed(static_cast<NDArray*>(handle), who));
  MX_CHECK_KIND(!array->is_sparse() && !array->is_traced(), ErrorKind::kType, who,
                ": the array must be dense and have values, got ",
                array->is_sparse() ? "a sparse array" : "an array of a trace");
  return array;
}

// Returns an array in the caller's memory. Its shape and type are those of `like`.
NDArrayRef host_array(const NDArray& like, void* data, size_t size, const char* who) {
  MX_CHECK_SHAPE(size == static_cast<size_t>(like.size()), who, ": the size must be the ",
                 like.size(), " elements of the array, got ", size);
  const size_t itemsize = dtype_size(like.dtype());
  MX_CHECK(reinterpret_cast<uintptr_t>(&pointed(static_cast<char*>(data), who)) % itemsize == 0,
           who, ": the address must be a multiple of the element size ", itemsize);
  return NDArray::from_storage(Storage::wrap({}, data, size * itemsize, [] {}), like.spec());
}

Device device_of_code(int type, int index) {
  for (const DeviceType known : {DeviceType::kCPU, DeviceType::kCUDA, DeviceType::kPinned})
    if (static_cast<int>(known) == type) return {known, index};
  fail(ErrorKind::kDevice, "MXStorageEmptyCache: the device type must be 1, 2 or 3, got ", type);
}

const std::vector<const char*>& operator_names() {
  static const auto* const names = [] {
    auto* found = new std::vector<const char*>;
    for (const OpSchema* op : ops().all()) {
      if (op->internal) continue;
      found->push_back(op->name.c_str());
      for (const std::string& alias : op->aliases) found->push_back(alias.c_str());
    }
    return found;
  }();  // leaked, because programs keep the pointers
  return *names;
}

struct Given {
  std::mutex mutex;
  std::unordered_set<NDArray*> arrays;  // each array has one additional reference
};

Given& given() {
  static auto* const handles = new Given;
  return *handles;
}

}  // namespace

pybind11::object handle_to_python(const void* object) {
  return pybind11::module_::import("ctypes").attr("c_void_p")(reinterpret_cast<uintptr_t>(object));
}

void* give_handle(NDArrayRef array) {
  const std::lock_guard lock(given().mutex);
  given().arrays.insert(array.get());
  return array.detach();
}

NDArrayRef take_handle(void* handle) {
  auto* array = static_cast<NDArray*>(handle);
  {
    const std::lock_guard lock(given().mutex);
    MX_CHECK(given().arrays.erase(array) == 1, "NDArray: the handle ", handle,
             " must be a new one of MXNDArrayFromDLPack, which no array owns yet");
  }
  NDArrayRef taken(array);
  array->release();
  return taken;
}

}  // namespace mxlite::python

using mxlite::pointed;

namespace {

int status_of(auto&& function) noexcept { return mxlite::c_status(nullptr, function); }

}  // namespace

extern "C" {

int MXNDArrayGetData(void* handle, void** data) {
  return status_of([&] {
    const auto array = mxlite::python::dense_of(handle, "MXNDArrayGetData");
    MX_CHECK(array->contiguous(),
             "MXNDArrayGetData: the array must be contiguous, got a view with strides; "
             "pass a copy");
    array->wait_to_read();
    pointed(data, "MXNDArrayGetData: data") = array->data();
  });
}

int MXNDArrayWaitToRead(void* handle) {
  return status_of(
      [&] { mxlite::python::dense_of(handle, "MXNDArrayWaitToRead")->wait_to_read(); });
}

int MXNDArrayWaitToWrite(void* handle) {
  return status_of(
      [&] { mxlite::python::dense_of(handle, "MXNDArrayWaitToWrite")->wait_to_write(); });
}

// In both functions, `size` is the number of elements of the array.
int MXNDArraySyncCopyToCPU(void* handle, void* data, size_t size) {
  return status_of([&] {
    const char* const who = "MXNDArraySyncCopyToCPU";
    const auto array = mxlite::python::dense_of(handle, who);
    array->wait_to_read();
    if (array->size() == 0 && size == 0) return;
    const auto host = mxlite::python::host_array(*array, data, size, who);
    copy_to(array, host);
    host->wait_to_read();
  });
}

int MXNDArraySyncCopyFromCPU(void* handle, const void* data, size_t size) {
  return status_of([&] {
    const char* const who = "MXNDArraySyncCopyFromCPU";
    const auto array = mxlite::python::dense_of(handle, who);
    mxlite::autograd::check_writable(who, array);
    if (array->size() == 0 && size == 0) return;
    const auto host = mxlite::python::host_array(*array, const_cast<void*>(data), size, who);
    copy_to(host, array);
    array->wait_to_read();
    host->wait_to_write();
  });
}

int MXNDArrayToDLPack(void* handle, void** tensor) {
  return status_of([&] {
    const auto array = mxlite::python::dense_of(handle, "MXNDArrayToDLPack");
    array->wait_to_read();
    pointed(tensor, "MXNDArrayToDLPack: tensor") = mxlite::python::export_dlpack(array);
  });
}

// The array takes ownership of the tensor. `transient` is ignored, because the tensor may be freed
// at any time after its last use.
int MXNDArrayFromDLPack(void* tensor, int /*transient*/, void** handle) {
  return status_of([&] {
    auto* const managed = static_cast<mxlite::python::DLManagedTensor*>(tensor);
    pointed(managed, "MXNDArrayFromDLPack: tensor");
    void*& result = pointed(handle, "MXNDArrayFromDLPack: handle");
    result = mxlite::python::give_handle(mxlite::python::import_dlpack(managed, [] {}));
  });
}

int MXNDArrayFree(void* handle) {
  return status_of([&] { mxlite::python::take_handle(handle); });
}

int MXRecordIOReaderTell(void* handle, size_t* position) {
  return status_of([&] {
    const char* const who = "MXRecordIOReaderTell: handle";
    const auto& reader = pointed(static_cast<mxlite::io::RecordReader*>(handle), who);
    pointed(position, "MXRecordIOReaderTell: position") = static_cast<size_t>(reader.tell());
  });
}

int MXListAllOpNames(uint32_t* size, const char*** names) {
  return status_of([&] {
    const auto& found = mxlite::python::operator_names();
    pointed(size, "MXListAllOpNames: size") = static_cast<uint32_t>(found.size());
    pointed(names, "MXListAllOpNames: names") = const_cast<const char**>(found.data());
  });
}

int MXGetGPUCount(int* count) {
  return status_of([&] {
    auto* const accelerator = mxlite::accelerator();
    pointed(count, "MXGetGPUCount: count") = accelerator ? accelerator->count() : 0;
  });
}

int MXGetGPUMemoryInformation64(int device, uint64_t* free, uint64_t* total) {
  return status_of([&] {
    const char* const who = "MXGetGPUMemoryInformation64";
    const auto memory = mxlite::require_accelerator(who, device).memory(device);
    pointed(free, who) = memory.free;
    pointed(total, who) = memory.total;
  });
}

int MXSetNumOMPThreads(int count) {
  return status_of([&] { mxlite::set_cpu_threads(count); });
}

int MXRandomSeed(int seed) {
  return status_of([&] { mxlite::seed_random(static_cast<uint64_t>(int64_t{seed})); });
}

// Stores the value for each thread without other effects. Operators need not be joined, because
// small operators run in the caller, and hybridized blocks run as one task.
int MXEngineSetBulkSize(int size, int* previous) {
  constexpr int kUsual = 15;
  static thread_local int current = kUsual;
  return status_of([&] {
    pointed(previous, "MXEngineSetBulkSize: previous") = current;
    current = size;
  });
}

int MXStorageEmptyCache(int device_type, int device) {
  return status_of([&] {
    mxlite::python::release_cached_memory(mxlite::python::device_of_code(device_type, device));
  });
}

}  // extern "C"
