// mxlite_predict_decode_image of <mxlite/predict.h>.
#include <mxlite/predict.h>

#include <algorithm>

#include "cpp/base/c_errors.h"
#include "cpp/io/image_transform.h"

int mxlite_predict_decode_image(const void* image, size_t size, int resize, int height, int width,
                                const float* mean, const float* std, float* data) {
  using namespace mxlite;  // NOLINT: the implementation
  const char* const who = __func__;
  return c_status(who, [&] {
    io::ImageParams params;
    params.resize = resize;
    params.height = height;
    params.width = width;
    if (mean) std::copy_n(mean, 3, params.mean.begin());
    if (std) std::copy_n(std, 3, params.std.begin());
    MX_CHECK(height > 0 && width > 0, "height and width must be at least 1, got ", height, " and ",
             width);
    io::check_image_params(params);
    const auto* bytes = &pointed(static_cast<const std::byte*>(image), "image");
    io::Random random;
    io::TransformScratch scratch;
    io::transform_image({bytes, size}, params, random, "the image", scratch,
                        &pointed(data, "data"));
  });
}
