#include "cpp/kvstore/comm/bucket.h"

#include "cpp/base/cache_line.h"
#include "cpp/base/error.h"

namespace mxlite {
namespace {

// Returns the number of elements of a part, including the zeros that fill its last cache line.
int64_t padded(DType dtype, const Shape& shape) {
  const auto line = static_cast<int64_t>(kCacheLineBytes / dtype_size(dtype));
  return (shape.size() + line - 1) / line * line;
}

}  // namespace

int64_t Bucket::elements_for(DType dtype, std::span<const Shape> shapes) {
  int64_t elements = 0;
  for (const Shape& shape : shapes) elements += padded(dtype, shape);
  return elements;
}

Bucket::Bucket(const NDArrayRef& memory, std::span<const Shape> shapes)
    : memory_(memory->storage()), dtype_(memory->dtype()), begins_{0} {
  const int64_t elements = elements_for(dtype_, shapes);
  MX_CHECK_SHAPE(memory->contiguous() && memory->offset() == 0 && memory->size() == elements,
                 "bucket: memory must be a vector of ", elements, " elements, got ",
                 memory->spec());
  for (const Shape& shape : shapes) {
    const TensorSpec spec{shape, dtype_};
    const size_t offset = static_cast<size_t>(begins_.back()) * dtype_size(dtype_);
    parts_.push_back(NDArray::from_storage(Storage::part_of(memory_, offset, spec.bytes()), spec));
    begins_.push_back(begins_.back() + padded(dtype_, shape));
  }
}

NDArrayRef Bucket::range(size_t first, size_t last) const {
  MX_ASSERT(first <= last && last < begins_.size());
  const Shape shape{begins_[last] - begins_[first]};
  return NDArray::view_of(memory_, {shape, dtype_}, contiguous_strides(shape), begins_[first]);
}

}  // namespace mxlite
