// Rows of a rois array. GPU kernels cannot throw like CPU kernels: a region is not usable if data
// does not have its image; its bins are then NaN and get no gradient.
#pragma once
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/cuda/element.cuh"

namespace mxlite::cuda {

// One row of rois in the compute type: v[0] is the index of the image, and the K - 1 numbers of the
// region follow.
template <class C, int K>
struct RegionRow {
  C v[K];

  __device__ static RegionRow read(const void* rois, DType dtype, int64_t r) {
    RegionRow row;
    for (int k = 0; k < K; ++k) row.v[k] = load_any<C>(rois, dtype, K * r + k);
    return row;
  }
  __device__ int64_t image() const { return static_cast<int64_t>(v[0]); }
  __device__ bool ignored() const { return v[0] < C(0); }
  __device__ bool usable(int64_t batch) const {
    bool finite = v[0] < static_cast<C>(batch);
    for (int k = 1; k < K; ++k) finite = finite && std::isfinite(v[k]);
    return finite;
  }
  // Returns whether the region reads pixels of this image.
  __device__ bool reads(int64_t number, int64_t batch) const {
    return !ignored() && usable(batch) && image() == number;
  }
};

}  // namespace mxlite::cuda
