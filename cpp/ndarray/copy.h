// Copies between any strides and dtypes.
#pragma once
#include "cpp/core/shape.h"
#include "cpp/core/stream.h"

namespace mxlite {

struct StridedData {
  void* data;
  DType dtype;
  Strides strides;  // in elements
};

// Copies src to dst, which have the same shape. Their memory must be identical or must not overlap.
// Pass threads > 1 only in kernels: a region on the user's thread would create a second team of
// threads, which would compete with the team of the engine's thread.
void copy_strided(const Shape& shape, const StridedData& src, const StridedData& dst,
                  int threads = 1);

// Copies within the memory of one GPU by submitting work to the stream. Set by the plug-in.
using DeviceCopyFn = void (*)(Stream& stream, const Shape& shape, const StridedData& src,
                              const StridedData& dst);
void set_device_copy(DeviceCopyFn copy);
void copy_strided_on(Stream& stream, const Shape& shape, const StridedData& src,
                     const StridedData& dst);

// Drops axes of size 1 and merges adjacent axes that are contiguous in every list of strides.
void collapse_dimensions(Shape& shape, std::span<Strides* const> strides);

}  // namespace mxlite
