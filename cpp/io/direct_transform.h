// Fast path for the usual augmentations without an intermediate image. Decodes only the pixels that
// the crop needs. Resizes and normalizes each row of the sample while the row is in the cache.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Returns whether direct_transform supports params. It supports at most one bilinear resize,
// cropping, mirroring and normalizing.
bool direct_transform_fits(const ImageParams& params);
// Returns false without drawing random numbers if the image is resized twice or exactly halved.
bool direct_transform(std::span<const std::byte> bytes, const ImageInfo& info,
                      const ImageParams& params, Random& random, const std::string& name,
                      Window& window, void* output);

}  // namespace mxlite::io
