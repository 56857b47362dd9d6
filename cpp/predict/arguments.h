// Converts and checks the arguments of C functions that create predictors.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/c_errors.h"
#include "cpp/predict/predictor.h"

namespace mxlite::predict {

size_t checked_count(int64_t count, const char* what);
std::vector<std::string> texts(int64_t count, const char* const* all, const char* what);
std::string text_at(const char* const* all, size_t index, const char* what);
DType dtype_of(int code);
Device device_of(int type, int index);

template <class Extent>
Shape shape_of(const Extent* extents, int64_t ndim) {
  MX_CHECK_SHAPE(ndim >= 0 && ndim <= Shape::kMaxNdim,
                 "the number of axes of an input must be in [0, ", Shape::kMaxNdim, "], got ",
                 ndim);
  Shape shape;
  for (int64_t i = 0; i < ndim; ++i)
    shape.push_back(static_cast<int64_t>((&pointed(extents, "the shapes of inputs"))[i]));
  return shape;
}

// `params` is the content of a .params file.
std::shared_ptr<const Network> network_of(std::string_view symbol, const void* params, size_t size,
                                          Device device, const std::vector<std::string>& outputs);

}  // namespace mxlite::predict
