#include <algorithm>
#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/vision/multibox.h"

namespace mxlite {
namespace {

template <class Acc>
struct HalfSize {
  Acc width, height;
};

template <class Acc>
HalfSize<Acc> half_size(const MultiBoxPriorParams& p, int64_t kind, Acc rows, Acc columns) {
  const auto i = static_cast<size_t>(kind);
  const bool first_ratio = i < p.sizes.size();
  const Acc size = static_cast<Acc>(p.sizes[first_ratio ? i : 0]);
  const Acc ratio = static_cast<Acc>(p.ratios[first_ratio ? 0 : i + 1 - p.sizes.size()]);
  const Acc root = std::sqrt(ratio);
  return {size * rows / columns * root / 2, size / root / 2};
}

template <class T>
void prior(const MultiBoxPriorParams& p, int64_t rows, int64_t columns, T* out) {
  using Acc = ComputeType<T>;
  const auto height = static_cast<Acc>(rows), width = static_cast<Acc>(columns);
  auto step_y = static_cast<Acc>(p.steps[0]), step_x = static_cast<Acc>(p.steps[1]);
  if (step_y <= 0 || step_x <= 0) {
    step_y = 1 / height;
    step_x = 1 / width;
  }
  const auto offset_y = static_cast<Acc>(p.offsets[0]), offset_x = static_cast<Acc>(p.offsets[1]);
  const auto kinds = static_cast<int64_t>(p.sizes.size() + p.ratios.size()) - 1;
  const auto limited = [clip = p.clip](Acc x) {
    return static_cast<T>(clip ? std::clamp(x, Acc(0), Acc(1)) : x);
  };
  cpu::parallel_for(rows, columns * kinds * 8, [&](int64_t row) {
    T* const to = out + row * columns * kinds * 4;
    const Acc y = (static_cast<Acc>(row) + offset_y) * step_y;
    for (int64_t kind = 0; kind < kinds; ++kind) {
      const HalfSize<Acc> half = half_size(p, kind, height, width);
      for (int64_t column = 0; column < columns; ++column) {
        const Acc x = (static_cast<Acc>(column) + offset_x) * step_x;
        T* const box = to + (column * kinds + kind) * 4;
        box[0] = limited(x - half.width);
        box[1] = limited(y - half.height);
        box[2] = limited(x + half.width);
        box[3] = limited(y + half.height);
      }
    }
  });
}

void prior_native(KernelContext&, const MultiBoxPriorParams& p, Inputs in, Outputs out) {
  dispatch_floating("_contrib_MultiBoxPrior", out[0].dtype,
                    [&]<class T>(T) { prior(p, in[0].shape[2], in[0].shape[3], out[0].as<T>()); });
}

}  // namespace

static const Registration multibox_prior_registration(Stage::kKernels, [](OpRegistry& ops) {
  const Kernel kernel{.strided_inputs = true, .inline_ok = false};  // data is never read
  ops.cpu_kernel<&prior_native>("_contrib_MultiBoxPrior", kernel);
});

}  // namespace mxlite
