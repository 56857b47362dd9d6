// Points of the bins of a rotated region, for every device.
#pragma once
#include "cpp/ops/cpu/vision/bilinear.h"

namespace mxlite::cpu {

// Parameters that all regions of a call share.
struct RotatedBins {
  int64_t rows, columns, samples;  // samples: number per bin and axis; if not positive, one per
                                   // pixel
  int64_t height, width;           // size of the image
  float scale;
};

template <class Acc>
struct RotatedGrid {
  Acc centre_x, centre_y, bin_h, bin_w, start_h, start_w, cosine, sine;
  int64_t samples_h, samples_w, height, width;

  // `region`: image, center, width, height, angle in degrees.
  MX_HOST_DEVICE RotatedGrid(const RotatedBins& bins, const Acc* region)
      : height(bins.height), width(bins.width) {
    const Acc scale = static_cast<Acc>(bins.scale);
    centre_x = region[1] * scale;
    centre_y = region[2] * scale;
    const Acc w = std::max(region[3] * scale, Acc(1)), h = std::max(region[4] * scale, Acc(1));
    const Acc angle = region[5] * static_cast<Acc>(3.14159265358979323846 / 180);
    cosine = std::cos(angle);
    sine = std::sin(angle);
    bin_h = h / static_cast<Acc>(bins.rows);
    bin_w = w / static_cast<Acc>(bins.columns);
    start_h = -h / 2;
    start_w = -w / 2;
    // Limits the points, because regions far larger than the image need no more points than the
    // image has pixels.
    const int64_t most = 4 * (height + width);
    samples_h = bins.samples > 0 ? bins.samples : clamp_index(std::ceil(bin_h), 1, most);
    samples_w = bins.samples > 0 ? bins.samples : clamp_index(std::ceil(bin_w), 1, most);
  }
  MX_HOST_DEVICE Acc count() const {
    return static_cast<Acc>(samples_h) * static_cast<Acc>(samples_w);
  }

  // Calls fn(neighbors) for the points of bin (i, j) that touch the image.
  MX_HOST_DEVICE void for_points(int64_t i, int64_t j, auto&& fn) const {
    for (int64_t a = 0; a < samples_h; ++a) for_row(i, j, a, 0, samples_w, fn);
  }

  // The position of a pixel along the region's axes, and the distance within which points may have
  // the pixel as a neighbor.
  struct Around {
    Acc down, right, reach;
  };
  MX_HOST_DEVICE Around around(int64_t row, int64_t column) const {
    const Acc dy = static_cast<Acc>(row) - centre_y, dx = static_cast<Acc>(column) - centre_x;
    // A neighbor is less than a pixel away along both axes of the image. The margin allows for
    // rounding.
    const Acc size = std::abs(centre_x) + std::abs(centre_y) - start_h - start_w;
    return {dx * sine + dy * cosine, dx * cosine - dy * sine, Acc(1.5) + Acc(1e-5) * size};
  }
  // Return the range [first, past) of bins that may have points around p, along rows or columns.
  MX_HOST_DEVICE void near_rows(const Around& p, int64_t rows, int64_t& first,
                                int64_t& past) const {
    range(p.down, p.reach, start_h, bin_h, rows, first, past);
  }
  MX_HOST_DEVICE void near_columns(const Around& p, int64_t columns, int64_t& first,
                                   int64_t& past) const {
    range(p.right, p.reach, start_w, bin_w, columns, first, past);
  }
  // Calls fn for the points of bin (i, j); may skip points that are not around p.
  MX_HOST_DEVICE void for_points_around(const Around& p, int64_t i, int64_t j, auto&& fn) const {
    int64_t a_first, a_past, b_first, b_past;
    range(p.down, p.reach, start_h + static_cast<Acc>(i) * bin_h,
          bin_h / static_cast<Acc>(samples_h), samples_h, a_first, a_past);
    range(p.right, p.reach, start_w + static_cast<Acc>(j) * bin_w,
          bin_w / static_cast<Acc>(samples_w), samples_w, b_first, b_past);
    for (int64_t a = a_first; a < a_past; ++a) for_row(i, j, a, b_first, b_past, fn);
  }

 private:
  // Calls fn(neighbors) for the points [first, past) of one row of points.
  MX_HOST_DEVICE void for_row(int64_t i, int64_t j, int64_t a, int64_t first, int64_t past,
                              auto&& fn) const {
    const Acc down = start_h + static_cast<Acc>(i) * bin_h +
                     (static_cast<Acc>(a) + Acc(0.5)) * bin_h / static_cast<Acc>(samples_h);
    const Acc step = bin_w / static_cast<Acc>(samples_w);
    const Acc left = start_w + static_cast<Acc>(j) * bin_w + step / 2;
    narrow(left * cosine + down * sine + centre_x, step * cosine, width, first, past);
    narrow(down * cosine - left * sine + centre_y, -step * sine, height, first, past);
    for (int64_t b = first; b < past; ++b) {
      const Acc right = start_w + static_cast<Acc>(j) * bin_w +
                        (static_cast<Acc>(b) + Acc(0.5)) * bin_w / static_cast<Acc>(samples_w);
      const Acc x = right * cosine + down * sine + centre_x;
      const Acc y = down * cosine - right * sine + centre_y;
      if (!(y >= -1 && y <= static_cast<Acc>(height) && x >= -1 && x <= static_cast<Acc>(width)))
        continue;
      fn(combine(clamped(y, height), clamped(x, width), width));
    }
  }

  // Finds which of the `count` intervals of length `size`, starting at `start`, may intersect [at -
  // reach, at + reach].
  MX_HOST_DEVICE static void range(Acc at, Acc reach, Acc start, Acc size, int64_t count,
                                   int64_t& first, int64_t& past) {
    first = clamp_index(std::floor((at - reach - start) / size) - 1, int64_t{0}, count);
    past = clamp_index(std::ceil((at + reach - start) / size) + 1, first, count);
  }

  // Reduces the range of points [first, past) to those with -1 <= origin + point * step <= size and
  // one more point on both sides, because a region may be far larger than the image.
  MX_HOST_DEVICE static void narrow(Acc origin, Acc step, int64_t size, int64_t& first,
                                    int64_t& past) {
    if (step == 0) return;
    const Acc at_low = (-1 - origin) / step, at_high = (static_cast<Acc>(size) - origin) / step;
    const Acc low = std::floor(std::min(at_low, at_high)) - 1;
    const Acc high = std::ceil(std::max(at_low, at_high)) + 2;
    first = clamp_index(low, first, past);
    past = clamp_index(high, first, past);
  }
};

}  // namespace mxlite::cpu
