#include "cpp/ops/nn/spatial.h"

#include "cpp/ops/dimensions.h"

namespace mxlite {
namespace {

int64_t spatial_entry(const Shape& values, int i, int64_t missing) {
  return values.ndim() > 0 ? values[i] : missing;
}

void check_entries(const char* op, const char* name, const Shape& values, const Shape& kernel) {
  MX_CHECK_SHAPE(values.ndim() == 0 || values.ndim() == kernel.ndim(), op, ": ", name,
                 " must have ", kernel.ndim(), " entries for kernel ", kernel, ", got ", values);
}

}  // namespace

SpatialWindow make_window(const Shape& kernel, const Shape& stride, const Shape& dilate,
                          const Shape& pad) {
  SpatialWindow w;
  for (int i = 0, at = 3 - kernel.ndim(); i < kernel.ndim(); ++i, ++at) {
    w.kernel[at] = kernel[i];
    w.stride[at] = spatial_entry(stride, i, 1);
    w.dilate[at] = spatial_entry(dilate, i, 1);
    w.pad[at] = spatial_entry(pad, i, 0);
  }
  return w;
}

SpatialDims spatial_dims(const Shape& shape, bool channels_last) {
  const int spatial = shape.ndim() - 2;
  SpatialDims d{shape[0], shape[channel_axis(shape.ndim(), channels_last)]};
  for (int i = 0; i < spatial; ++i) d.size[3 - spatial + i] = shape[i + (channels_last ? 1 : 2)];
  return d;
}

Shape spatial_shape(int64_t batch, int64_t channels, std::span<const int64_t> size,
                    bool channels_last) {
  Shape s{batch};
  if (!channels_last) s.push_back(channels);
  for (int64_t d : size) s.push_back(d);
  if (channels_last) s.push_back(channels);
  return s;
}

namespace {

// Returns the data's expected shape for `spatial` window dimensions, as part of an error text.
std::string expected_data(int spatial, const std::optional<SpatialLayout>& layout) {
  const std::string name =
      layout && layout_ndim(*layout) == spatial + 2
          ? std::string(EnumNames<SpatialLayout>::names[static_cast<int>(*layout)].first)
          : std::string(spatial == 1   ? "NCW"
                        : spatial == 2 ? "NCHW"
                                       : "NCDHW");
  std::string text;
  for (const char letter : name) text += (text.empty() ? "(" : ", ") + std::string(1, letter);
  return text + ")";
}

}  // namespace

void check_spatial_data(const char* op, const Shape& data, const Shape& kernel,
                        const std::optional<SpatialLayout>& layout) {
  MX_CHECK_SHAPE(
      data.ndim() >= 3 && data.ndim() <= 5, op,
      ": data must have 3 to 5 dimensions (batch, channels, 1 to 3 spatial), got ", data.ndim(),
      " in shape ", data,
      data.ndim() == kernel.ndim() + 1 ? "; add a batch dimension: data.expand_dims(0)" : "");
  MX_CHECK_SHAPE(
      data.ndim() == kernel.ndim() + 2, op, ": data must have shape ",
      expected_data(kernel.ndim(), layout), " for kernel ", kernel, ", got ", data,
      data.ndim() == kernel.ndim() + 1 ? "; add a batch dimension: data.expand_dims(0)" : "");
  if (layout)
    MX_CHECK_SHAPE(
        layout_ndim(*layout) == data.ndim(), op, ": data must have ", layout_ndim(*layout),
        " dimensions for layout ", EnumNames<SpatialLayout>::names[static_cast<int>(*layout)].first,
        ", got shape ", data,
        data.ndim() == layout_ndim(*layout) - 1 ? "; add a batch dimension: data.expand_dims(0)"
                                                : "");
}

void check_window(const char* op, const Shape& kernel, const Shape& stride, const Shape& dilate,
                  const Shape& pad) {
  MX_CHECK_SHAPE(kernel.ndim() >= 1 && kernel.ndim() <= 3, op,
                 ": kernel must have 1 to 3 entries, got ", kernel);
  check_entries(op, "stride", stride, kernel);
  check_entries(op, "dilate", dilate, kernel);
  check_entries(op, "pad", pad, kernel);
}

int64_t window_count(const char* op, int64_t size, int64_t kernel, int64_t stride, int64_t dilate,
                     int64_t pad) {
  if (!is_known(size)) return kUnknownDim;
  const int64_t reach = checked_add(checked_mul(dilate, kernel - 1), 1);
  const int64_t padded = checked_add(size, checked_mul(2, pad));
  MX_CHECK_SHAPE(padded >= reach, op,
                 ": the kernel's extent must be at most that of the padded data, ", padded,
                 ", got ", reach);
  return (padded - reach) / stride + 1;
}

}  // namespace mxlite
