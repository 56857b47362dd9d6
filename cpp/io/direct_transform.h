// The usual augmentations without an intermediate image: only the pixels that a crop needs are
// decoded, and each row of the sample is resized and normalized while it is in the cache.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Returns whether direct_transform supports params: at most one bilinear resize, cropping,
// mirroring and normalizing.
bool direct_transform_fits(const ImageParams& params);
// Returns false, drawing nothing, for an image that is resized twice or exactly halved.
bool direct_transform(std::span<const std::byte> bytes, const ImageInfo& info,
                      const ImageParams& params, Random& random, const std::string& name,
                      Window& window, void* output);

}  // namespace mxlite::io
