// Sum of many arrays, block by block, so that 16-bit floats are rounded once and memory is read
// once.

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/cpu/pointwise/tables.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using namespace pointwise;  // NOLINT: this folder's own names

void add_n(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const TensorRef& sum = out[0];
  const Compute c = compute_for_arithmetic(sum.dtype);
  const BinaryFn add = kBinary<Add>.fn[static_cast<int>(c)];
  const LoadFn load = load_fn(sum.dtype, c);
  const StoreFn store = store_fn(c, sum.dtype);
  const auto width = static_cast<int64_t>(dtype_size(sum.dtype));
  parallel_ranges(sum.size(), [&](int64_t first, int64_t last) {
    alignas(64) std::byte total[kBlock * 8], next[kBlock * 8];
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      load(in[0].as<std::byte>() + first * width, 1, n, total);
      for (size_t k = 1; k < in.size(); ++k) {
        load(in[k].as<std::byte>() + first * width, 1, n, next);
        add(total, next, total, n, Form::kBoth);
      }
      store(total, n, sum.as<std::byte>() + first * width);
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels,
                                       [](OpRegistry& ops) { ops.cpu_kernel<&add_n>("add_n"); });

}  // namespace mxlite
