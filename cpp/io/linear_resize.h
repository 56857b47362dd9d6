// Bilinear resampling of a part of an image, row by row. The result is bit-identical to the same
// part of the whole image resized with OpenCV's INTER_LINEAR.
#pragma once
#include <vector>

#include "cpp/io/decode.h"

namespace mxlite::io {

// Mapping of one axis. Output pixel i of [begin, begin + count) has the source coordinate origin +
// (i + 0.5) * scale - 0.5. Only source pixels [lowest, lowest + size) may be read.
struct ResizeAxis {
  double scale = 1, origin = 0;
  int lowest = 0, size = 0;
  int begin = 0, count = 0;
};

// Holds two source pixels and their weights, in 2048ths, for each output.
struct LinearTaps {
  std::vector<int> first, second;
  std::vector<int16_t> weights;  // pairs of weights

  int lowest() const { return first.front(); }
  int end() const { return second.back() + 1; }
};

// Two functions are needed: OpenCV drops the second pixel beyond the left and right border, but
// repeats the border row above and below. The weights therefore differ in the last bit.
LinearTaps column_taps(const ResizeAxis& axis);
LinearTaps row_taps(const ResizeAxis& axis);

// Computes output rows from a window that contains the pixels of the taps. Each pixel has 1 or 4
// bytes.
class LinearResizer {
 public:
  LinearResizer(const Window& window, int channels, const LinearTaps& columns,
                const LinearTaps& rows);
  // y must increase from call to call. The result is valid until the next call.
  const unsigned char* row(int y);

 private:
  const int16_t* horizontal(int source_row);

  const Window& window_;
  int channels_;
  const LinearTaps& columns_;
  const LinearTaps& rows_;
  std::vector<int16_t> lines_[2];  // source rows, resized in width, divided by 16
  int line_rows_[2] = {-1, -1};
  std::vector<unsigned char> output_;
};

}  // namespace mxlite::io
