// Sliding windows over 1 to 3 spatial dimensions: layouts, checks and output sizes of convolution,
// deconvolution, pooling and im2col. Kernels always get three spatial dimensions; missing leading
// dimensions have size 1 (SpatialWindow, SpatialDims).
#pragma once
#include <cstdint>
#include <optional>
#include <tuple>

#include "cpp/ops/attr.h"

namespace mxlite {

enum class SpatialLayout : uint8_t { kNCW, kNWC, kNCHW, kNHWC, kNCDHW, kNDHWC };
MX_ENUM_NAMES(SpatialLayout, {"NCW", E::kNCW}, {"NWC", E::kNWC}, {"NCHW", E::kNCHW},
              {"NHWC", E::kNHWC}, {"NCDHW", E::kNCDHW}, {"NDHWC", E::kNDHWC})

inline bool is_channels_last(const std::optional<SpatialLayout>& layout) {
  return layout == SpatialLayout::kNWC || layout == SpatialLayout::kNHWC ||
         layout == SpatialLayout::kNDHWC;
}
inline int layout_ndim(SpatialLayout layout) { return 3 + static_cast<int>(layout) / 2; }

struct SpatialWindow {
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
};
// Schema fields of a window, for the members kernel, stride, dilate and pad of P.
template <class P>
constexpr auto window_fields(
    const char* kernel_doc =
        "Size of the window along the spatial axes: (w,), (h, w) or (d, h, w).",
    const char* pad_doc = "Number of zeros added at both ends of each spatial axis; () is 0.") {
  return std::tuple(
      MX_REQUIRED_FIELD(kernel, kernel_doc).between(1, kMaxSize),
      MX_FIELD(stride, "Step of the window along each spatial axis; () is 1.").between(1, kMaxSize),
      MX_FIELD(dilate,
               "Distance between adjacent elements of the window along each spatial axis; () is 1.")
          .between(1, kMaxSize),
      MX_FIELD(pad, pad_doc).between(0, kMaxSize));
}
// Schema fields of filters, for the members num_filter and num_group of P.
template <class P>
constexpr auto filter_fields() {
  return std::tuple(
      MX_REQUIRED_FIELD(num_filter, "Number of output channels.").between(1, kMaxSize),
      MX_FIELD(num_group,
               "Number of groups that the channels are divided into; each group is convolved "
               "separately.")
          .between(1, kMaxSize));
}

// The remaining schema fields of a convolution, for members of the same names of P.
template <class P>
constexpr auto convolution_fields() {
  return std::tuple(
      MX_FIELD(workspace, "Scratch memory that cuDNN may use, in MiB; has no effect on the CPU.")
          .at_least(0),
      MX_FIELD(no_bias, "Whether to omit the input bias."),
      MX_FIELD(cudnn_tune,
               "How cuDNN's algorithm is chosen: off, limited_workspace or fastest; None uses the "
               "environment variable MXNET_CUDNN_AUTOTUNE_DEFAULT."),
      MX_FIELD(cudnn_off, "Has no effect; accepted for compatibility with MXNet 1.x."),
      MX_FIELD(layout, "Order of data's dimensions; None is NCW, NCHW or NCDHW."));
}

// Empty stride and dilate mean 1, empty pad means 0.
SpatialWindow make_window(const Shape& kernel, const Shape& stride, const Shape& dilate,
                          const Shape& pad);

struct SpatialDims {
  int64_t batch = 0, channels = 0;
  int64_t size[3] = {1, 1, 1};
  int64_t spatial_size() const { return size[0] * size[1] * size[2]; }
};
SpatialDims spatial_dims(const Shape& shape, bool channels_last);

// Returns the shape with batch, channels and spatial sizes in the layout's order.
Shape spatial_shape(int64_t batch, int64_t channels, std::span<const int64_t> size,
                    bool channels_last);
inline int channel_axis(int ndim, bool channels_last) { return channels_last ? ndim - 1 : 1; }

// Throws unless data has kernel.ndim() + 2 dimensions and matches the layout.
void check_spatial_data(const char* op, const Shape& data, const Shape& kernel,
                        const std::optional<SpatialLayout>& layout);
// Throws unless kernel has 1 to 3 entries, and stride, dilate and pad are empty or have the same
// length.
void check_window(const char* op, const Shape& kernel, const Shape& stride, const Shape& dilate,
                  const Shape& pad);
// Returns floor((size + 2 pad - dilated kernel) / stride) + 1, or -1 for an unknown size. Throws a
// shape error if the kernel does not fit.
int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t dilate,
                     int64_t pad);

}  // namespace mxlite
