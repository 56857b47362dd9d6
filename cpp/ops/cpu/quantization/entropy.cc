// Chooses which part of a histogram around 0 to keep: for every width, compares the clipped
// histogram with its quantized form.
#include <vector>

#include "cpp/ops/cpu/pointwise/block_io.h"
#include "cpp/ops/cpu/quantization/convert.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace quantization {
namespace {

// Uses float as MXNet 1.x does, because rounding decides between equally good thresholds.
using Histogram = std::vector<float>;

Histogram read(const TensorRef& t) {
  Histogram values(static_cast<size_t>(t.size()));
  pointwise::load_fn(t.dtype, pointwise::Compute::kFloat)(t.data, 1, t.size(), values.data());
  return values;
}

// Moves a small amount from other bins to empty bins, so that logarithms exist. Returns false if
// this is impossible.
bool smooth(Histogram& h) {
  constexpr float kLittle = 1e-4f;
  const auto zeros = static_cast<float>(std::count(h.begin(), h.end(), 0.0f));
  const float others = static_cast<float>(h.size()) - zeros;
  if (others == 0) return false;
  const float taken = kLittle * zeros / others;
  if (taken >= 1) return false;
  for (float& v : h) v = v == 0 ? kLittle : v - taken;
  return true;
}

float divergence(const Histogram& p, const Histogram& q) {
  float p_sum = 0, q_sum = 0, result = 0;
  for (size_t i = 0; i < p.size(); ++i) p_sum += p[i], q_sum += q[i];
  for (size_t i = 0; i < p.size(); ++i) {
    const float a = p[i] / p_sum, b = q[i] / q_sum;
    if (a > 0 && b > 0) result += a * std::log(a / b);
  }
  return result;
}

// Merges bins into `levels` groups and distributes each group's sum over its nonempty bins.
Histogram quantized(const Histogram& bins, const Histogram& kept, size_t levels) {
  Histogram result(bins.size(), 0.0f);
  const size_t width = bins.size() / levels;
  for (size_t level = 0; level < levels; ++level) {
    const size_t first = level * width, last = level + 1 == levels ? bins.size() : first + width;
    float sum = 0, used = 0;
    for (size_t i = first; i < last; ++i) {
      sum += bins[i];
      used += bins[i] != 0 ? 1.0f : 0.0f;
    }
    for (size_t i = first; i < last && used > 0; ++i)
      if (kept[i] != 0) result[i] = sum / used;
  }
  return result;
}

void calibrate(KernelContext&, const EntropyParams& p, Inputs in, Outputs out) {
  const Histogram hist = read(in[0]), edges = read(in[1]);
  const size_t middle = hist.size() / 2, levels = static_cast<size_t>(p.num_quantized_bins);
  const size_t least = std::max<size_t>(levels / 2, 1);
  std::vector<float> distances(middle + 1 - least);
  const auto work = static_cast<int64_t>(hist.size());
  cpu::parallel_for(static_cast<int64_t>(distances.size()), work, [&](int64_t i) {
    const size_t half = least + static_cast<size_t>(i);
    const size_t first = middle - half, last = middle + half + 1;
    Histogram bins(hist.begin() + static_cast<int64_t>(first),
                   hist.begin() + static_cast<int64_t>(last));
    Histogram kept = bins;  // outer bins are added to the end bins
    for (size_t k = 0; k < first; ++k) kept.front() += hist[k];
    for (size_t k = last; k < hist.size(); ++k) kept.back() += hist[k];
    bins.front() = 0;  // as in 1.x, whose thresholds must be reproduced
    Histogram coarse = quantized(bins, kept, levels);
    const bool smoothed = smooth(kept) && smooth(coarse);
    distances[static_cast<size_t>(i)] =
        smoothed ? divergence(kept, coarse) : std::numeric_limits<float>::infinity();
  });
  float best = std::numeric_limits<float>::infinity(), threshold = edges.back();
  for (size_t i = 0; i < distances.size(); ++i)
    if (distances[i] < best) {
      best = distances[i];
      threshold = edges[middle + least + i + 1];
    }
  *out[0].as<float>() = threshold;
  *out[1].as<float>() = best;
}

}  // namespace
}  // namespace quantization

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&quantization::calibrate>("_contrib_calibrate_entropy", {.inline_ok = false});
});

}  // namespace mxlite
