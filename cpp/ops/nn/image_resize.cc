#include "cpp/ops/nn/image_resize.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kPooling = "_contrib_AdaptiveAvgPooling2D";
constexpr const char* kResize = "_contrib_BilinearResize2D";

void check_image(const char* op, const TensorSpec& data) {
  check_floating(op, "data", data);
  MX_CHECK_SHAPE(data.shape.ndim() == 4 && data.shape[2] != 0 && data.shape[3] != 0, op,
                 ": data must have 4 dimensions (batch, channels, height, width), got shape ",
                 data.shape);
}

Specs infer_pooling(const AdaptiveAvgPoolingParams& p, std::span<const TensorSpec> in) {
  check_image(kPooling, in[0]);
  const Shape& size = p.output_size;
  MX_CHECK_SHAPE(size.ndim() <= 2, kPooling, ": output_size must have at most 2 entries, got ",
                 size);
  const int64_t height = size.ndim() > 0 ? size[0] : 1;
  const int64_t width = size.ndim() > 1 ? size[1] : height;
  return Specs{TensorSpec{Shape{in[0].shape[0], in[0].shape[1], height, width}, in[0].dtype}};
}

int64_t resized(ResizeMode mode, int64_t size, int64_t wanted, std::optional<float> scale) {
  if (!is_known(size) && (scale || mode != ResizeMode::kSize)) return kUnknownDim;
  switch (mode) {
    case ResizeMode::kOddScale:
      MX_CHECK(scale, kResize, ": mode odd_scale needs scale_height and scale_width");
      return size % 2 == 0 ? static_cast<int64_t>(static_cast<float>(size) * *scale)
                           : static_cast<int64_t>(static_cast<float>(size - 1) * *scale) + 1;
    case ResizeMode::kToEvenDown:
      return size - size % 2;
    case ResizeMode::kToEvenUp:
      return size + size % 2;
    case ResizeMode::kToOddDown:
      return size % 2 == 1 ? size : size - 1;
    case ResizeMode::kToOddUp:
      return size % 2 == 1 ? size : size + 1;
    default:
      return scale ? static_cast<int64_t>(static_cast<float>(size) * *scale) : wanted;
  }
}

Specs infer_resized_image(const BilinearResizeParams& p, std::span<const TensorSpec> in) {
  check_image(kResize, in[0]);
  Shape out = in[0].shape;
  if (p.mode == ResizeMode::kLike) {
    const Shape& like = in[1].shape;
    MX_CHECK_SHAPE(like.ndim() == 4, kResize, ": like must have 4 dimensions, got shape ", like);
    out[2] = like[2];
    out[3] = like[3];
  } else {
    out[2] = resized(p.mode, out[2], p.height, p.scale_height);
    out[3] = resized(p.mode, out[3], p.width, p.scale_width);
  }
  const bool known = in[0].shape.is_known() && in.back().shape.is_known();
  MX_CHECK(!known || (out[2] > 0 && out[3] > 0), kResize,
           ": height and width of the output must be positive, got ", out[2], " and ", out[3]);
  return Specs{TensorSpec{out, in[0].dtype}};
}

Specs infer_image_resize_backward(const ImageResizeGradParams& p, std::span<const TensorSpec> in) {
  return Specs{TensorSpec{p.data_shape, in[0].dtype}};
}

}  // namespace

static const Registration image_resize_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<AdaptiveAvgPoolingParams>(kPooling)
              .doc("Average pooling with windows chosen so that the output has a given height and "
                   "width.")
              .shapes("(N, C, H, W) -> (N, C, oH, oW)")
              .infer(infer_pooling)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit("_adaptive_avg_pooling_backward", {g.output_grad(0)},
                               {{"data_shape", g.input_spec(0).shape}})};
              }));
  ops.add(OpBuilder<BilinearResizeParams>(kResize)
              .doc("Resizes images by bilinear interpolation.")
              .shapes("(N, C, H, W) -> (N, C, oH, oW)")
              .inputs({"data", "like"})
              .input_count(
                  [](const BilinearResizeParams& p) { return p.mode == ResizeMode::kLike ? 2 : 1; })
              .infer(infer_resized_image)
              .gradient([](GradBuilder& g) {
                std::vector<ValueRef> grads(static_cast<size_t>(g.num_inputs()));
                const bool align = g.params<BilinearResizeParams>().align_corners;
                grads[0] =
                    g.emit("_bilinear_resize_backward", {g.output_grad(0)},
                           {{"data_shape", g.input_spec(0).shape}, {"align_corners", align}});
                return grads;
              }));
  ops.add(OpBuilder<ImageResizeGradParams>("_adaptive_avg_pooling_backward")
              .internal()
              .doc("Gradient of AdaptiveAvgPooling2D.")
              .inputs({"output_grad"})
              .infer(infer_image_resize_backward)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                const Shape& s = g.input_spec(0).shape;
                return {g.emit(kPooling, {g.output_grad(0)}, {{"output_size", Shape{s[2], s[3]}}})};
              }));
  ops.add(OpBuilder<ImageResizeGradParams>("_bilinear_resize_backward")
              .internal()
              .doc("Gradient of BilinearResize2D.")
              .inputs({"output_grad"})
              .infer(infer_image_resize_backward)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                const Shape& s = g.input_spec(0).shape;
                const bool align = g.params<ImageResizeGradParams>().align_corners;
                return {g.emit(kResize, {g.output_grad(0)},
                               {{"height", s[2]}, {"width", s[3]}, {"align_corners", align}})};
              }));
});

}  // namespace mxlite
