// The user's array: a strided view of a storage. An array made while tracing has shape and dtype
// but no storage.
#pragma once
#include "cpp/base/intrusive_ptr.h"
#include "cpp/core/shape.h"
#include "cpp/ndarray/storage.h"

namespace mxlite {

// What autograd, tracing and sparse storage hang on an array; their classes derive from these.
class AutogradInfo : public RefCounted {};
class TraceInfo : public RefCounted {};
class SparseInfo : public RefCounted {};

class NDArray;
using NDArrayRef = IntrusivePtr<NDArray>;

class NDArray final : public RefCounted {
 public:
  // Fresh contiguous array, not initialised.
  static NDArrayRef empty(const TensorSpec& spec, Device device,
                          StreamKind first_user = StreamKind::kCompute);
  static NDArrayRef from_storage(StorageRef storage, const TensorSpec& spec);
  static NDArrayRef view_of(StorageRef storage, const TensorSpec& spec, const Strides& strides,
                            int64_t offset);
  static NDArrayRef traced(const TensorSpec& spec, Device device, IntrusivePtr<TraceInfo> trace);
  // An array whose memory is other arrays (sparse.h); operators never see one.
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

  const StorageRef& storage() const { return storage_; }
  // First element. Only for kernels and after a wait.
  void* data() const {
    return static_cast<std::byte*>(storage_->data()) + offset_ * dtype_size(spec_.dtype);
  }
  // Same storage, other shape; the array must be contiguous and the size equal.
  NDArrayRef reshaped(const Shape& shape) const;
  // Same storage, any strides.
  NDArrayRef strided(const Shape& shape, const Strides& strides, int64_t offset) const;
  // Same memory, no autograd link.
  NDArrayRef detached() const;

  // Until the value is there; rethrows the error of the task that should have made it.
  void wait_to_read() const;
  // Until nobody reads or writes it any more.
  void wait_to_write() const;

  const IntrusivePtr<AutogradInfo>& autograd() const { return autograd_; }
  void set_autograd(IntrusivePtr<AutogradInfo> info) { autograd_ = std::move(info); }
  const IntrusivePtr<TraceInfo>& trace() const { return trace_; }
  const IntrusivePtr<SparseInfo>& sparse_info() const { return sparse_; }
  // While shapes of parameters are inferred, a traced array's shape is completed.
  void complete_spec(const TensorSpec& spec) { spec_ = spec; }
  // Exchanges what the handle stands for (Parameter data, `out=` of a view-returning op).
  void assign_handle(const NDArray& other);

  // The Python object of this array, not owned; written by cpp/python under the GIL only.
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
  IntrusivePtr<AutogradInfo> autograd_;
  IntrusivePtr<TraceInfo> trace_;
  IntrusivePtr<SparseInfo> sparse_;
};

}  // namespace mxlite
