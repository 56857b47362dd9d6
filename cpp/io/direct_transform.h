// The usual augmentations without a picture in between: only the pixels that a crop needs are
// decoded, and each row of the sample is resized and normalized while it is in the cache.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Whether params ask only for what direct_transform can do: at most one bilinear resize, cropping,
// mirroring and normalizing.
bool direct_transform_fits(const ImageParams& params);
// False, with nothing drawn, for an image that needs more: resized twice, or exactly halved.
bool direct_transform(std::span<const std::byte> bytes, const ImageInfo& info,
                      const ImageParams& params, Random& random, const std::string& name,
                      Window& window, void* output);

}  // namespace mxlite::io
