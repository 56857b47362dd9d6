// Anchors and predicted boxes of Proposal, for the kernels of all devices. Boxes are in pixels and
// include their last row and column, so a box from 3 to 3 has width 1.
#pragma once
#include <cmath>
#include <cstdint>

#include "cpp/base/host_device.h"
#include "cpp/ops/vision/proposal.h"

namespace mxlite::proposal {

template <class Acc>
struct Region {
  Acc left, top, right, bottom, score;
};

// Sums and halves are computed in double and rounded once, as in 1.x.
template <class Acc>
struct Span {
  Acc length, middle;
  MX_HOST_DEVICE Span(Acc low, Acc high)
      : length(static_cast<Acc>(static_cast<double>(high - low) + 1.0)),
        middle(static_cast<Acc>(low + 0.5 * (length - 1.0))) {}
};
template <class Acc>
MX_HOST_DEVICE Acc moved(Acc middle, double direction, Acc length) {
  return static_cast<Acc>(middle + direction * 0.5 * (length - 1.0));
}

// Returns anchor `kind` at the first position. Its sides are rounded to pixels before scaling.
template <class Acc>
Region<Acc> base_anchor(const ProposalParams& p, int64_t kind) {
  const auto num_scales = static_cast<int64_t>(p.scales.size());
  const Acc ratio = static_cast<Acc>(p.ratios[static_cast<size_t>(kind / num_scales)]);
  const Acc scale = static_cast<Acc>(p.scales[static_cast<size_t>(kind % num_scales)]);
  const auto stride = static_cast<Acc>(p.feature_stride);
  const Acc width = std::floor(std::sqrt(std::floor(stride * stride / ratio)) + Acc(0.5)) * scale;
  const Acc height = std::floor(width / scale * ratio + Acc(0.5)) * scale;
  const Acc middle = (stride - 1) / 2;
  const Acc half_width = (width - 1) / 2, half_height = (height - 1) / 2;
  return {middle - half_width, middle - half_height, middle + half_width, middle + half_height, 0};
}

// The row of the input im_info that describes one image.
template <class Acc>
struct ImageInfo {
  Acc height, width, scale;
  int64_t rows, columns;  // positions inside the image; other positions are padding

  MX_HOST_DEVICE ImageInfo(int feature_stride, Acc height, Acc width, Acc scale)
      : height(height),
        width(width),
        scale(scale),
        rows(positions(height, feature_stride)),
        columns(positions(width, feature_stride)) {}
  MX_HOST_DEVICE static int64_t positions(Acc pixels, int feature_stride) {
    const Acc n = pixels / static_cast<Acc>(feature_stride);
    if (!(n >= 1)) return 0;                // also handles NaN
    constexpr auto kEnough = Acc(1 << 30);  // larger than any grid
    return static_cast<int64_t>(n < kEnough ? n : kEnough);
  }
};

// Output of the network for one anchor.
template <class Acc>
struct Offsets {
  Acc x, y, z, w;
};

// Returns the predicted box, clipped to the image.
template <class Acc>
MX_HOST_DEVICE Region<Acc> predict(bool iou_loss, const Region<Acc>& anchor, const Offsets<Acc>& o,
                                   const ImageInfo<Acc>& image) {
  Region<Acc> box{anchor.left + o.x, anchor.top + o.y, anchor.right + o.z, anchor.bottom + o.w, 0};
  if (!iou_loss) {
    const Span<Acc> horizontal(anchor.left, anchor.right), vertical(anchor.top, anchor.bottom);
    const Acc middle_x = o.x * horizontal.length + horizontal.middle;
    const Acc middle_y = o.y * vertical.length + vertical.middle;
    const Acc width = std::exp(o.z) * horizontal.length, height = std::exp(o.w) * vertical.length;
    box = {moved(middle_x, -1, width), moved(middle_y, -1, height), moved(middle_x, 1, width),
           moved(middle_y, 1, height), 0};
  }
  const auto inside = [](Acc value, Acc size) {
    const Acc low = size - 1 < value ? size - 1 : value;
    return low < Acc(0) ? Acc(0) : low;
  };
  return {inside(box.left, image.width), inside(box.top, image.height),
          inside(box.right, image.width), inside(box.bottom, image.height), 0};
}

// Returns the box of one position with its score. Boxes in padding and small boxes get score -1;
// small boxes are also enlarged on all sides, as in MXNet 1.x.
template <class Acc>
MX_HOST_DEVICE Region<Acc> propose(const Region<Acc>& base, bool iou_loss, int feature_stride,
                                   int min_size, int64_t row, int64_t column,
                                   const Offsets<Acc>& offsets, Acc score,
                                   const ImageInfo<Acc>& image) {
  const Acc x = static_cast<Acc>(column * feature_stride);
  const Acc y = static_cast<Acc>(row * feature_stride);
  const Region<Acc> anchor{base.left + x, base.top + y, base.right + x, base.bottom + y, 0};
  Region<Acc> box = predict(iou_loss, anchor, offsets, image);
  box.score = row >= image.rows || column >= image.columns ? Acc(-1) : score;
  const Acc least = static_cast<Acc>(min_size) * image.scale;
  if (box.right - box.left + 1 < least || box.bottom - box.top + 1 < least)
    return {box.left - least / 2, box.top - least / 2, box.right + least / 2,
            box.bottom + least / 2, -1};
  return box;
}

// Returns the intersection over union of two boxes, whose areas are stored in them.
template <class Acc, class Box>
MX_HOST_DEVICE Acc overlap(const Box& a, const Box& b) {
  const Acc right = a.right < b.right ? a.right : b.right;
  const Acc left = a.left > b.left ? a.left : b.left;
  const Acc bottom = a.bottom < b.bottom ? a.bottom : b.bottom;
  const Acc top = a.top > b.top ? a.top : b.top;
  const Acc width = right - left + 1, height = bottom - top + 1;
  const Acc common = (width > 0 ? width : Acc(0)) * (height > 0 ? height : Acc(0));
  return common / (a.area + b.area - common);
}

}  // namespace mxlite::proposal
