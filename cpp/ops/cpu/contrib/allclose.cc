#include "cpp/ops/contrib/allclose.h"

#include <atomic>
#include <cmath>

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

bool close(const AllcloseParams& p, double a, double b) {
  if (a == b) return true;  // also true for infinities of the same sign
  if (std::isnan(a) || std::isnan(b)) return p.equal_nan && std::isnan(a) && std::isnan(b);
  return std::isfinite(b) && std::fabs(a - b) <= p.atol + p.rtol * std::fabs(b);
}

void allclose_native(KernelContext&, const AllcloseParams& p, Inputs in, Outputs out) {
  using pointwise::kBlock;
  const auto load = pointwise::load_fn(in[0].dtype, pointwise::Compute::kDouble);
  const auto width = static_cast<int64_t>(dtype_size(in[0].dtype));
  std::atomic<bool> all{true};
  pointwise::parallel_ranges(in[0].size(), [&](int64_t first, int64_t last) {
    double a[kBlock], b[kBlock];
    for (; first < last && all.load(std::memory_order_relaxed); first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      load(in[0].as<std::byte>() + first * width, 1, n, a);
      load(in[1].as<std::byte>() + first * width, 1, n, b);
      bool equal = true;
      for (int64_t i = 0; i < n; ++i) equal &= close(p, a[i], b[i]);
      if (!equal) all.store(false, std::memory_order_relaxed);
    }
  });
  *out[0].as<uint8_t>() = all ? 1 : 0;
}

}  // namespace

static const Registration allclose_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&allclose_native>("_contrib_allclose");
});

}  // namespace mxlite
