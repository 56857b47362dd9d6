// Sizes of the memory for suppression, and the number of steps that results from them. Includes no
// CUDA header, so that tests on the CPU can check the sizes.
#pragma once
#include <algorithm>
#include <cstdint>

namespace mxlite::cuda {

inline constexpr int64_t kTileBoxes = 64;  // boxes of a tile: one bit each in a word

// Memory limits of one pass over images and of one panel of the overlap matrix. A single image, or
// the smallest panel of a pass, may exceed these limits; its memory is proportional to the number
// of boxes.
inline constexpr int64_t kPassBytes = int64_t{32} << 20;
inline constexpr int64_t kPanelBytes = int64_t{64} << 20;

inline int64_t suppression_words(int64_t limit) { return (limit + kTileBoxes - 1) / kTileBoxes; }

// Returns the bytes of the smallest panel of an image, which has 64 rows of the overlap matrix.
inline int64_t least_panel_bytes(int64_t limit) {
  return kTileBoxes * suppression_words(limit) * static_cast<int64_t>(sizeof(uint64_t));
}

// Returns how many images one pass processes if each needs `image_bytes` and a panel for `limit`
// boxes. `limit` is 0 for operators without a panel.
inline int64_t images_per_pass(int64_t images, int64_t limit, int64_t image_bytes) {
  const int64_t bytes = image_bytes + least_panel_bytes(limit);
  return std::clamp<int64_t>(kPassBytes / std::max<int64_t>(bytes, 1), 1, images);
}

// Returns how many rows of the overlap matrix are stored at a time: whole tiles, or all rows if
// they fit.
inline int64_t rows_per_panel(int64_t images, int64_t limit) {
  const int64_t words = suppression_words(limit);
  const int64_t tiles = kPanelBytes / std::max<int64_t>(images * least_panel_bytes(limit), 1);
  return std::clamp<int64_t>(tiles, 1, std::max<int64_t>(words, 1)) * kTileBoxes;
}

}  // namespace mxlite::cuda
