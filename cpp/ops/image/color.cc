// Brightness, contrast, saturation, hue and lighting of RGB images with values of 0 to 255.
#include <string>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/image/image.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_color(const TensorSpec& data) {
  const ImageView v = image_view("_image colour operator", data);
  MX_CHECK_SHAPE(may_equal(v.channels, 1) || v.channels == 3,
                 "image: data must have 1 or 3 channels, got ", v.channels, " in shape ",
                 data.shape);
  return {data};
}

template <class P>
OpBuilder<P> color_op(const char* name, const char* doc) {
  OpBuilder<P> op(name);
  op.doc(doc)
      .shapes("([N,] H, W, C) -> the same shape")
      .infer([](const P&, std::span<const TensorSpec> in) { return infer_color(in[0]); })
      .inplace(0, 0);
  return op;
}

template <class P>
OpBuilder<P> random_op(const char* name, const char* doc) {
  OpBuilder<P> op = color_op<P>(name, doc);
  op.random([](const P&, std::span<const TensorSpec> out) {
    return kRandomPerImage * static_cast<uint64_t>(image_view("image", out[0]).count);
  });
  return op;
}

OpBuilder<ImageFactorParams> factor_op(const std::string& name, const char* doc) {
  OpBuilder<ImageFactorParams> op = random_op<ImageFactorParams>(name.c_str(), doc);
  op.infer([name](const ImageFactorParams& p, std::span<const TensorSpec> in) {
    MX_CHECK(p.min_factor <= p.max_factor, name, ": min_factor must be at most max_factor, ",
             p.max_factor, ", got ", p.min_factor);
    return infer_color(in[0]);
  });
  return op;
}

}  // namespace

static const Registration color_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(factor_op("_image_random_brightness",
                    "Multiplies each image by a factor drawn between min_factor and max_factor."));
  ops.add(factor_op("_image_random_contrast",
                    "Changes the contrast of each image: multiplies the difference of pixels from "
                    "the mean gray by a factor drawn between min_factor and max_factor."));
  ops.add(factor_op("_image_random_saturation",
                    "Changes the saturation of each image: multiplies the difference of each pixel "
                    "from its gray by a factor drawn between min_factor and max_factor."));
  ops.add(factor_op("_image_random_hue",
                    "Turns the hue of each image by an angle drawn between min_factor and "
                    "max_factor, in full circles."));
  ops.add(random_op<ImageJitterParams>("_image_random_color_jitter",
                                       "Changes brightness, contrast, saturation and hue of each "
                                       "image by random amounts, in random order."));
  ops.add(
      color_op<ImageLightingParams>(
          "_image_adjust_lighting",
          "Adds to each pixel the principal components of ImageNet's colors, multiplied by alpha.")
          .infer([](const ImageLightingParams& p, std::span<const TensorSpec> in) {
            MX_CHECK(p.alpha.size() == 3, "_image_adjust_lighting: alpha must have 3 numbers, got ",
                     p.alpha.size());
            return infer_color(in[0]);
          }));
  ops.add(random_op<ImageRandomLightingParams>(
      "_image_random_lighting",
      "Adds to the pixels of each image the principal components of ImageNet's colors, multiplied "
      "by normally distributed factors."));
});

}  // namespace mxlite
