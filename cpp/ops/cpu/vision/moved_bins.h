// Positions, for every device, of bins that the input `trans` shifts, and of their sampling points.
#pragma once
#include "cpp/ops/cpu/vision/bilinear.h"
#include "cpp/ops/vision/roi.h"

namespace mxlite::cpu {

// Bins and points of one call. A class is a set of output channels that use the same part of trans.
template <class T, class Acc>
struct MovedBins {
  DeformablePsRoiPoolingParams p;
  int64_t height, width, classes;
  const T* trans;  // null if bins are not shifted

  struct Bin {
    Acc y, x, step_y, step_x;  // first point, and distance between points
    Acc size_y, size_x;        // size of the region, the unit of the shifts in trans
    int64_t group, part;  // plane that the output channel reads, and position in a channel of trans
    int64_t moved_class;
  };

  MX_HOST_DEVICE int64_t parts() const { return p.parts() * p.parts(); }
  // Returns the position of the first number of trans for a class of a region: x offsets, then y
  // offsets.
  MX_HOST_DEVICE int64_t trans_at(int64_t region, int64_t moved_class) const {
    return (region * classes + moved_class) * 2 * parts();
  }

  MX_HOST_DEVICE Bin bin(const Acc* region, int64_t r, int64_t channel, int64_t i,
                         int64_t j) const {
    const Acc scale = static_cast<Acc>(p.spatial_scale), bins = static_cast<Acc>(p.pooled_size);
    const Acc x0 = std::round(region[1]) * scale - Acc(0.5);
    const Acc y0 = std::round(region[2]) * scale - Acc(0.5);
    const Acc x1 = (std::round(region[3]) + 1) * scale - Acc(0.5);
    const Acc y1 = (std::round(region[4]) + 1) * scale - Acc(0.5);
    Bin b;
    b.size_x = std::max(x1 - x0, Acc(0.1));
    b.size_y = std::max(y1 - y0, Acc(0.1));
    b.x = x0 + static_cast<Acc>(j) * b.size_x / bins;
    b.y = y0 + static_cast<Acc>(i) * b.size_y / bins;
    b.step_x = b.size_x / bins / static_cast<Acc>(p.sample_per_part);
    b.step_y = b.size_y / bins / static_cast<Acc>(p.sample_per_part);
    const int64_t groups = p.group_size;
    b.group = i * groups / p.pooled_size * groups + j * groups / p.pooled_size;
    b.part = i * p.parts() / p.pooled_size * p.parts() + j * p.parts() / p.pooled_size;
    b.moved_class = channel / (p.output_dim / classes);
    if (trans) {
      const T* offset = trans + trans_at(r, b.moved_class) + b.part;
      b.x += static_cast<Acc>(offset[0]) * static_cast<Acc>(p.trans_std) * b.size_x;
      b.y += static_cast<Acc>(offset[parts()]) * static_cast<Acc>(p.trans_std) * b.size_y;
    }
    return b;
  }

  // Calls fn(neighbors) for the points inside the image. Returns their number.
  MX_HOST_DEVICE int64_t for_points(const Bin& b, auto&& fn) const {
    int64_t count = 0;
    for (int64_t a = 0; a < p.sample_per_part; ++a) {
      const Acc y = b.y + static_cast<Acc>(a) * b.step_y;
      if (!(y >= Acc(-0.5) && y <= static_cast<Acc>(height) - Acc(0.5))) continue;
      for (int64_t k = 0; k < p.sample_per_part; ++k) {
        const Acc x = b.x + static_cast<Acc>(k) * b.step_x;
        if (!(x >= Acc(-0.5) && x <= static_cast<Acc>(width) - Acc(0.5))) continue;
        fn(combine(clamped(y, height), clamped(x, width), width));
        ++count;
      }
    }
    return count;
  }
};

}  // namespace mxlite::cpu
