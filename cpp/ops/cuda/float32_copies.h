// Float32 copies of 16-bit float arrays, for kernels of several steps. Such kernels compute in
// float32 and round once, so no step may pass a rounded value to the next step.
#pragma once
#include <span>
#include <vector>

#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {

inline DType without_halves(DType dtype) { return is_half(dtype) ? DType::kFloat32 : dtype; }

// Holds float32 copies of 16-bit float arrays in scratch memory; arrays of other dtypes are not
// copied. Construct the object while scratch memory is planned, get the block, and then call
// place().
class Float32Copies {
 public:
  Float32Copies(ScratchPlan& plan, std::span<const TensorRef> arrays) : arrays_(arrays) {
    for (const TensorRef& array : arrays) {
      places_.push_back(
          is_half(array.dtype) ? plan.add(static_cast<size_t>(array.size()) * sizeof(float)) : 0);
      copies_.push_back(array);
    }
  }

  // Places the copies in a block of contiguous memory.
  void place(void* block) {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (!is_half(arrays_[i].dtype)) continue;
      copies_[i].data = part<void>(block, places_[i]);
      copies_[i].dtype = DType::kFloat32;
    }
  }
  // Fills the copies from the arrays, before the kernel reads them.
  void read(KernelContext& ctx) const { convert(ctx, arrays_, copies_); }
  // Rounds the copies and stores them in the arrays, after the kernel has written them.
  void write(KernelContext& ctx) const { convert(ctx, copies_, arrays_); }

  std::span<const TensorRef> refs() const { return copies_; }

 private:
  static void convert(KernelContext& ctx, std::span<const TensorRef> from,
                      std::span<const TensorRef> to) {
    for (size_t i = 0; i < to.size(); ++i)
      if (from[i].dtype != to[i].dtype) convert_copy(ctx, from[i], to[i]);
  }

  const std::span<const TensorRef> arrays_;
  std::vector<size_t> places_;
  std::vector<TensorRef> copies_;
};

}  // namespace mxlite::cuda
