// The user's array: a strided view of a storage. Arrays of a trace have no storage.
#pragma once
#include "cpp/base/intrusive_ptr.h"
#include "cpp/core/shape.h"
#include "cpp/ndarray/storage.h"

namespace mxlite {

// Base classes of the objects that autograd, tracing and sparse storage attach to an array.
class AutogradInfo : public RefCounted {};
class TraceInfo : public RefCounted {};
class SparseInfo : public RefCounted {};

class NDArray;
using NDArrayRef = IntrusivePtr<NDArray>;

class NDArray final : public RefCounted {
 public:
  ~NDArray() override {
    if (storage_) storage_->remove_array();
  }
  // Returns a new contiguous array with uninitialized memory.
  static NDArrayRef empty(const TensorSpec& spec, Device device,
                          StreamKind first_user = StreamKind::kCompute);
  static NDArrayRef from_storage(StorageRef storage, const TensorSpec& spec);
  static NDArrayRef view_of(StorageRef storage, const TensorSpec& spec, const Strides& strides,
                            int64_t offset);
  static NDArrayRef traced(const TensorSpec& spec, Device device, IntrusivePtr<TraceInfo> trace);
  // Returns an array that consists of other arrays (sparse.h). Operators never receive such arrays.
  static NDArrayRef sparse(const TensorSpec& spec, Device device, IntrusivePtr<SparseInfo> parts);

  const Shape& shape() const { return spec_.shape; }
  DType dtype() const { return spec_.dtype; }
  const TensorSpec& spec() const { return spec_; }
  const Strides& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  int64_t size() const { return spec_.shape.size(); }
  Device device() const { return device_; }
  bool contiguous() const { return contiguous_; }
  bool is_traced() const { return static_cast<bool>(trace_); }
  bool is_sparse() const { return static_cast<bool>(sparse_); }
  // Returns whether the Python object of this array has the class of numpy mode. Views of such an
  // array, and results of operators and graphs with such an input, have the same class.
  bool is_numpy() const { return numpy_; }
  void set_numpy(bool numpy) { numpy_ = numpy; }

  const StorageRef& storage() const { return storage_; }
  // Returns the first element's address. Call only in kernels and after a wait.
  void* data() const {
    return static_cast<std::byte*>(storage_->data()) + offset_ * dtype_size(spec_.dtype);
  }
  // Returns the storage and offset from which a task computes the first element's address when it
  // runs.
  StoragePlace place() const {
    return {storage_, static_cast<size_t>(offset_) * dtype_size(spec_.dtype)};
  }
  // Returns an array on the same storage with another shape. The array must be contiguous, and the
  // sizes must be equal.
  NDArrayRef reshaped(const Shape& shape) const;
  // Returns an array on the same storage with any strides.
  NDArrayRef strided(const Shape& shape, const Strides& strides, int64_t offset) const;
  // Returns an array on the same memory without its autograd link.
  NDArrayRef detached() const;
  // Returns an array on the same memory with the same autograd link.
  NDArrayRef with_numpy(bool numpy) const;

  // Waits until the value is computed. Rethrows the error if the task that computes the value has
  // failed.
  void wait_to_read() const;
  // Waits until no task reads or writes the array.
  void wait_to_write() const;

  const IntrusivePtr<AutogradInfo>& autograd() const { return autograd_; }
  void set_autograd(IntrusivePtr<AutogradInfo> info) { autograd_ = std::move(info); }
  const IntrusivePtr<TraceInfo>& trace() const { return trace_; }
  const IntrusivePtr<SparseInfo>& sparse_info() const { return sparse_; }
  // Completes the shape of a traced array when shapes of parameters are inferred.
  void complete_spec(const TensorSpec& spec) { spec_ = spec; }
  // Makes this handle refer to the array of another handle. Used for Parameter data and for `out=`
  // of an operator that returns a view.
  void assign_handle(const NDArray& other);

  // The Python object of this array, not owned. Only cpp/python writes it, and only with the GIL
  // held.
  void* python_object = nullptr;

 private:
  NDArray(StorageRef storage, const TensorSpec& spec, const Strides& strides, int64_t offset,
          Device device);

  StorageRef storage_;
  TensorSpec spec_;
  Strides strides_;
  int64_t offset_ = 0;
  Device device_;
  bool contiguous_ = true;
  bool numpy_ = false;
  IntrusivePtr<AutogradInfo> autograd_;
  IntrusivePtr<TraceInfo> trace_;
  IntrusivePtr<SparseInfo> sparse_;
};

}  // namespace mxlite
