// Writes rows of pixels to a sample's channel planes. Normalizes, casts and mirrors in one pass.
#pragma once
#include "cpp/io/image_transform.h"

namespace mxlite::io {

// Randomly drawn augmentations of one sample.
struct SampleLook {
  bool flip = false;
  float contrast = 1, light = 0;
};

SampleLook draw_look(const ImageParams& params, Random& random);
// `row` has params.width pixels of pixel_bytes each, with RGB first. `output` is the sample's
// memory.
void write_row(const unsigned char* row, int pixel_bytes, int y, const ImageParams& params,
               const SampleLook& look, void* output);

}  // namespace mxlite::io
