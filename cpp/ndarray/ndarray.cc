#include "cpp/ndarray/ndarray.h"

#include <algorithm>

#include "cpp/ndarray/limits.h"

namespace mxlite {
namespace {

// Throws an index error unless every element of the view lies inside the storage.
void check_inside(const Storage& storage, const TensorSpec& spec, const Strides& strides,
                  int64_t offset) {
  MX_CHECK_SHAPE(strides.ndim() == spec.shape.ndim(),
                 "a view must have as many strides as dimensions, got shape ", spec.shape,
                 " and strides ", strides);
  check_array_size(spec);
  int64_t first = offset, last = offset;
  for (int i = 0; i < strides.ndim(); ++i) {
    if (spec.shape[i] == 0) return;
    const int64_t reach = checked_mul(spec.shape[i] - 1, strides[i]);
    int64_t& end = reach < 0 ? first : last;
    end = checked_add(end, reach);
  }
  const int64_t bytes =
      checked_mul(checked_add(last, 1), static_cast<int64_t>(dtype_size(spec.dtype)));
  MX_CHECK_KIND(first >= 0 && static_cast<size_t>(bytes) <= storage.bytes(), ErrorKind::kIndex,
                "a view of shape ", spec.shape, ", strides ", strides, " and offset ", offset,
                " reaches from element ", first, " to ", last, ", but the memory has ",
                storage.bytes() / static_cast<size_t>(dtype_size(spec.dtype)), " elements");
}

}  // namespace

void check_empty_or_huge(const TensorSpec& spec) {
  // Treats zero dimensions of an empty array as 1, as NumPy does, so that strides and conversions
  // to wider dtypes cannot overflow.
  const bool empty = std::find(spec.shape.begin(), spec.shape.end(), 0) != spec.shape.end();
  int64_t bytes = empty ? kWidestElement : static_cast<int64_t>(dtype_size(spec.dtype));
  bool fits = true;
  for (const int64_t dim : spec.shape) {
    MX_CHECK_SHAPE(dim >= 0, "an array's dimensions must be at least 0, got shape ", spec.shape);
    fits = fits && !__builtin_mul_overflow(bytes, std::max<int64_t>(dim, 1), &bytes);
  }
  MX_CHECK_SHAPE(fits || !empty, "an empty array of shape ", spec.shape,
                 ": the product of its nonzero dimensions must be below 2^60");
  MX_CHECK_KIND(fits, ErrorKind::kOutOfMemory, "an array of shape ", spec.shape,
                " must be smaller than 2^63 bytes");
}

NDArray::NDArray(StorageRef storage, const TensorSpec& spec, const Strides& strides, int64_t offset,
                 Device device)
    : storage_(std::move(storage)),
      spec_(spec),
      strides_(strides),
      offset_(offset),
      device_(device),
      contiguous_(is_contiguous(spec.shape, strides)) {
  if (storage_) storage_->add_array();
}

NDArrayRef NDArray::empty(const TensorSpec& spec, Device device, StreamKind first_user) {
  check_array_size(spec);
  StorageRef storage = Storage::allocate(device, spec.bytes(), first_user);
  const Device place = storage->device();
  return NDArrayRef(
      new NDArray(std::move(storage), spec, contiguous_strides(spec.shape), 0, place));
}

NDArrayRef NDArray::from_storage(StorageRef storage, const TensorSpec& spec) {
  return view_of(std::move(storage), spec, contiguous_strides(spec.shape), 0);
}

NDArrayRef NDArray::view_of(StorageRef storage, const TensorSpec& spec, const Strides& strides,
                            int64_t offset) {
  const Device device = storage->device();
  check_inside(*storage, spec, strides, offset);
  return NDArrayRef(new NDArray(std::move(storage), spec, strides, offset, device));
}

NDArrayRef NDArray::traced(const TensorSpec& spec, Device device, IntrusivePtr<TraceInfo> trace) {
  NDArrayRef array(new NDArray(nullptr, spec, Strides(), 0, device));
  array->contiguous_ = true;
  array->trace_ = std::move(trace);
  return array;
}

NDArrayRef NDArray::sparse(const TensorSpec& spec, Device device, IntrusivePtr<SparseInfo> parts) {
  NDArrayRef array(new NDArray(nullptr, spec, Strides(), 0, device));
  array->sparse_ = std::move(parts);
  return array;
}

NDArrayRef NDArray::reshaped(const Shape& shape) const {
  MX_ASSERT(contiguous_ && shape.size() == size());
  return strided(shape, contiguous_strides(shape), offset_);
}

NDArrayRef NDArray::strided(const Shape& shape, const Strides& strides, int64_t offset) const {
  NDArrayRef array = view_of(storage_, {shape, dtype()}, strides, offset);
  array->numpy_ = numpy_;
  return array;
}

NDArrayRef NDArray::detached() const {
  NDArrayRef array(new NDArray(storage_, spec_, strides_, offset_, device_));
  array->trace_ = trace_;
  array->sparse_ = sparse_;
  array->numpy_ = numpy_;
  return array;
}

NDArrayRef NDArray::with_numpy(bool numpy) const {
  NDArrayRef array = detached();
  array->autograd_ = autograd_;
  array->numpy_ = numpy;
  return array;
}

void NDArray::wait_to_read() const {
  if (storage_) engine::Engine::get().wait(storage_->var());
}

void NDArray::wait_to_write() const {
  if (storage_) engine::Engine::get().wait_for_write(storage_->var());
}

void NDArray::assign_handle(const NDArray& other) {
  if (storage_ != other.storage_) {
    if (storage_) storage_->remove_array();
    storage_ = other.storage_;
    if (storage_) storage_->add_array();
  }
  spec_ = other.spec_;
  strides_ = other.strides_;
  offset_ = other.offset_;
  device_ = other.device_;
  contiguous_ = other.contiguous_;
}

}  // namespace mxlite
