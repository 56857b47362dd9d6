// Descriptions of poolings for oneDNN, shared by the eager and planned kernels.
#pragma once
#include <optional>

#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/nn/pooling.h"

namespace mxlite::onednn {

struct PoolDescs {
  Desc data, output;  // the user's memory in oneDNN's order of dimensions
  dnnl::algorithm algorithm;
  Dims kernel, stride, dilate, pad, pad_end;
};

// Returns nullopt for poolings that oneDNN does not support (sums, norms, averages over cut
// windows).
std::optional<PoolDescs> describe(const PoolingParams& p, const Shape& data, const Shape& output,
                                  DType dtype);

// Returns an empty descriptor if oneDNN has only its reference implementation.
dnnl::pooling_forward::primitive_desc forward_desc(const PoolDescs& d, const Desc& data,
                                                   const Desc& output,
                                                   const dnnl::primitive_attr& attr);

// Returns how many samples to pool in one call. Max pooling then checks its input for NaN, which
// should still be in the cache.
int64_t samples_at_once(const PoolingParams& p, const TensorSpec& data);

// Must be called after max pooling of `data`, which `from` describes, into `out`, which `to`
// describes. Sets the results of windows with a NaN to NaN.
void keep_nans(const PoolDescs& d, const Desc& from, const Desc& to, const void* data, void* out);

}  // namespace mxlite::onednn
