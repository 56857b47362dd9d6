// Tests how suppression of boxes divides its work to limit its memory: into passes over images and
// into panels of the overlap matrix.
#include <gtest/gtest.h>

#include "cpp/ops/cuda/vision/suppression_plan.h"

namespace mxlite::cuda {
namespace {

int64_t panel_bytes(int64_t images, int64_t limit) {
  return images * suppression_words(limit) * rows_per_panel(images, limit) * 8;
}

TEST(SuppressionPlan, KeepsTheWholeMatrixOfFewBoxes) {
  for (const int64_t limit : {1, 63, 64, 65, 6000}) {
    EXPECT_GE(rows_per_panel(1, limit), limit);
    EXPECT_LT(rows_per_panel(1, limit), limit + kTileBoxes);
  }
}

TEST(SuppressionPlan, CutsLargeMatricesIntoPanelsOfWholeTiles) {
  for (const int64_t limit : {24000, 100000, 1000000})
    for (const int64_t images : {1, 3, 8}) {
      const int64_t rows = rows_per_panel(images, limit);
      EXPECT_EQ(rows % kTileBoxes, 0);
      EXPECT_LT(rows, limit);
      EXPECT_LE(panel_bytes(images, limit),
                std::max(kPanelBytes, images * least_panel_bytes(limit)));
    }
}

TEST(SuppressionPlan, TakesMemoryLinearInTheBoxes) {
  const int64_t limit = int64_t{1} << 33;  // the square of which is beyond int64
  EXPECT_EQ(rows_per_panel(1, limit), kTileBoxes);
  EXPECT_EQ(panel_bytes(1, limit), 8 * limit);
  EXPECT_EQ(images_per_pass(100, limit, 40 * limit), 1);
}

TEST(SuppressionPlan, NeedsNoPanelWithoutALimit) {
  EXPECT_EQ(images_per_pass(100, 0, kPassBytes / 4), 4);
  EXPECT_EQ(images_per_pass(3, 0, kPassBytes / 4), 3);
  EXPECT_EQ(images_per_pass(100, 0, 2 * kPassBytes), 1);
}

TEST(SuppressionPlan, BoundsTheImagesOfAPass) {
  const int64_t limit = 1000, image_bytes = 60000;
  const int64_t images = images_per_pass(1 << 20, limit, image_bytes);
  EXPECT_GT(images, 100);
  EXPECT_LE(images * (image_bytes + least_panel_bytes(limit)), kPassBytes);
  EXPECT_LE(panel_bytes(images, limit), kPanelBytes);
  EXPECT_EQ(images_per_pass(7, limit, image_bytes), 7);
  // test_box_nms_of_more_images_than_one_pass_takes uses the same numbers.
  EXPECT_EQ(images_per_pass(520, 1025, 2048 * 16 + 1025 * 24 + (2 + 3 * 17) * 8), 504);
  EXPECT_EQ(images_per_pass(7, limit, 2 * kPassBytes), 1);
}

}  // namespace
}  // namespace mxlite::cuda
