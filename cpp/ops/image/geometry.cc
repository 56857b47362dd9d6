// to_tensor, normalize, crop, resize, flips.
#include <memory>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/slice.h"

namespace mxlite {

void check_image(const char* op, const TensorSpec& data) {
  MX_CHECK_SHAPE(data.shape.ndim() == 3 || data.shape.ndim() == 4, op,
                 ": data must have shape (height, width, channels) or a batch of these, got ",
                 data.shape);
  MX_CHECK_DTYPE(data.dtype == DType::kUInt8 || is_floating(data.dtype), op,
                 ": dtype must be uint8 or a float type, got ", data.dtype);
}

ImageView image_view(const char* op, const TensorSpec& data) {
  check_image(op, data);
  const Shape& s = data.shape;
  const int n = s.ndim();
  return {n == 4 ? s[0] : 1, s[n - 3], s[n - 2], s[n - 1]};
}

namespace {

Shape image_shape(const Shape& like, int64_t a, int64_t b, int64_t c) {
  return like.ndim() == 4 ? Shape{like[0], a, b, c} : Shape{a, b, c};
}

Specs infer_to_tensor(const NoParams&, std::span<const TensorSpec> in) {
  const ImageView v = image_view("_image_to_tensor", in[0]);
  return {{image_shape(in[0].shape, v.channels, v.height, v.width), DType::kFloat32}};
}

Specs infer_normalize(const ImageNormalizeParams& p, std::span<const TensorSpec> in) {
  const Shape& s = in[0].shape;
  MX_CHECK_SHAPE(
      s.ndim() == 3 || s.ndim() == 4,
      "_image_normalize: data must have shape (channels, height, width) or a batch of these, got ",
      s);
  MX_CHECK_DTYPE(is_floating(in[0].dtype), "_image_normalize: dtype must be a float type, got ",
                 in[0].dtype, "; apply to_tensor first");
  const int64_t channels = s[s.ndim() - 3];
  for (const auto* values : {&p.mean, &p.std})
    MX_CHECK(values->size() == 1 || static_cast<int64_t>(values->size()) >= channels,
             "_image_normalize: ", values == &p.mean ? "mean" : "std", " must have 1 or at least ",
             channels, " numbers for data of shape ", s, ", got ", values->size());
  return {in[0]};
}

Specs infer_crop(const ImageCropParams& p, std::span<const TensorSpec> in) {
  const ImageView v = image_view("_image_crop", in[0]);
  MX_CHECK(may_be_at_least(v.width, p.x + p.width) && may_be_at_least(v.height, p.y + p.height),
           "_image_crop: the part must be within the image of width ", v.width, " and height ",
           v.height, ", got width ", p.width, " and height ", p.height, " at (", p.x, ", ", p.y,
           ")");
  return {{image_shape(in[0].shape, p.height, p.width, v.channels), in[0].dtype}};
}

Specs infer_resize(const ImageResizeParams& p, std::span<const TensorSpec> in) {
  const ImageView v = image_view("_image_resize", in[0]);
  MX_CHECK(p.size.ndim() == 1 || p.size.ndim() == 2,
           "_image_resize: size must be one number or (width, height), got ", p.size);
  MX_CHECK_SHAPE(v.height != 0 && v.width != 0,
                 "_image_resize: data must have at least 1 pixel, got shape ", in[0].shape);
  int64_t width = p.size[0], height = p.size.ndim() == 2 ? p.size[1] : p.size[0];
  if (p.size.ndim() == 1 && p.keep_ratio) {
    if (!is_known(v.height) || !is_known(v.width))
      height = width = kUnknownDim;
    else if (v.height > v.width)
      height = width * v.height / v.width;
    else
      width = height * v.width / v.height;
  }
  return {{image_shape(in[0].shape, height, width, v.channels), in[0].dtype}};
}

template <class P>
Specs infer_flip(const P&, std::span<const TensorSpec> in) {
  check_image("_image_flip", in[0]);
  return {in[0]};
}

std::vector<ValueRef> grad_to_tensor(GradBuilder& g) {
  const TensorSpec& from = g.input_spec(0);
  if (!is_floating(from.dtype)) return {ValueRef{}};
  const Shape axes = from.shape.ndim() == 4 ? Shape{0, 2, 3, 1} : Shape{1, 2, 0};
  const ValueRef grad = g.emit("transpose", {g.output_grad(0)}, {{"axes", axes}});
  return {g.mul_scalar(g.cast(grad, from.dtype), 1.0 / 255)};
}

std::vector<ValueRef> grad_normalize(GradBuilder& g) {
  auto params = std::make_shared<ImageNormalizeParams>();
  params->mean = {0};
  params->std = g.params<ImageNormalizeParams>().std;
  return {g.emit("_image_normalize", {g.output_grad(0)}, params)};
}

std::vector<ValueRef> grad_crop(GradBuilder& g) {
  const auto& p = g.params<ImageCropParams>();
  const Shape& from = g.input_spec(0).shape;
  auto params = std::make_shared<SliceBackwardParams>();
  params->shape = from;
  params->begin = from.ndim() == 4 ? Shape{0, p.y, p.x, 0} : Shape{p.y, p.x, 0};
  params->step = Shape::filled(from.ndim(), 1);
  return {g.emit("_slice_backward", {g.output_grad(0)}, params)};
}

std::vector<ValueRef> grad_flip_left_right(GradBuilder& g) {
  return {g.emit("_image_flip_left_right", {g.output_grad(0)})};
}
std::vector<ValueRef> grad_flip_top_bottom(GradBuilder& g) {
  return {g.emit("_image_flip_top_bottom", {g.output_grad(0)})};
}

uint64_t count_random(const NoParams&, std::span<const TensorSpec> out) {
  return kRandomPerImage * static_cast<uint64_t>(image_view("_image_flip", out[0]).count);
}

}  // namespace

static const Registration geometry_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<NoParams>("_image_to_tensor")
              .doc("Converts images of shape (height, width, channels) with values from 0 to 255 "
                   "to float32 of shape (channels, height, width) with values from 0 to 1.")
              .shapes("([N,] H, W, C) -> ([N,] C, H, W)")
              .infer(infer_to_tensor)
              .gradient(grad_to_tensor));
  ops.add(
      OpBuilder<ImageNormalizeParams>("_image_normalize")
          .doc("(data - mean) / std for each channel of images of shape (channels, height, width).")
          .infer(infer_normalize)
          .gradient(grad_normalize)
          .inplace(0, 0));
  ops.add(OpBuilder<ImageCropParams>("_image_crop")
              .doc("Cuts a rectangle out of an image.")
              .shapes("([N,] H, W, C) -> ([N,] height, width, C)")
              .infer(infer_crop)
              .gradient(grad_crop));
  ops.add(OpBuilder<ImageResizeParams>("_image_resize")
              .doc("Resizes an image.")
              .shapes("([N,] H, W, C) -> ([N,] oH, oW, C)")
              .infer(infer_resize));
  ops.add(OpBuilder<NoParams>("_image_flip_left_right")
              .doc("Mirrors an image left to right.")
              .infer(infer_flip<NoParams>)
              .gradient(grad_flip_left_right));
  ops.add(OpBuilder<NoParams>("_image_flip_top_bottom")
              .doc("Mirrors an image top to bottom.")
              .infer(infer_flip<NoParams>)
              .gradient(grad_flip_top_bottom));
  ops.add(OpBuilder<NoParams>("_image_random_flip_left_right")
              .doc("Mirrors each image left to right with probability one half.")
              .infer(infer_flip<NoParams>)
              .random(count_random));
  ops.add(OpBuilder<NoParams>("_image_random_flip_top_bottom")
              .doc("Mirrors each image top to bottom with probability one half.")
              .infer(infer_flip<NoParams>)
              .random(count_random));
});

}  // namespace mxlite
