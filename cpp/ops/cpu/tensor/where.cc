#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using pointwise::Compute;
using pointwise::kBlock;

// Sets a mask to all ones where the condition is not 0.
template <class Word>
void make_mask(const auto* condition, int64_t n, Word* mask) {
  for (int64_t i = 0; i < n; ++i) mask[i] = condition[i] != 0 ? static_cast<Word>(~Word(0)) : 0;
}

// x and y are read as unsigned words, because only their element size matters. Masks select the
// elements, because a branch per element is slow for random conditions. Conditions wider than a
// byte are converted to double, in which nonzero values stay nonzero.
template <class Word>
void select(Inputs in, Outputs out) {
  const Word *x = in[1].as<Word>(), *y = in[2].as<Word>();
  Word* to = out[0].as<Word>();
  const auto load = pointwise::load_fn(in[0].dtype, Compute::kDouble);
  const auto width = static_cast<int64_t>(dtype_size(in[0].dtype));
  const int64_t total = out[0].size();
  const int64_t row = total / std::max<int64_t>(in[0].size(), 1);  // number of elements per
                                                                   // condition
  pointwise::parallel_ranges(total, [&](int64_t first, int64_t last) {
    double condition[kBlock];
    Word mask[kBlock];
    while (first < last) {
      const int64_t cell = first / row;
      const std::byte* const given = in[0].as<std::byte>() + cell * width;
      const int64_t n = std::min(last - first, row == 1 ? kBlock : (cell + 1) * row - first);
      if (row == 1) {
        if (width == 1) {
          make_mask(reinterpret_cast<const uint8_t*>(given), n, mask);
        } else {
          load(given, 1, n, condition);
          make_mask(condition, n, mask);
        }
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[first + i] = static_cast<Word>((x[first + i] & mask[i]) | (y[first + i] & ~mask[i]));
      } else {
        load(given, 1, 1, condition);
        const Word* from = condition[0] != 0 ? x : y;
        if (from != to) std::copy_n(from + first, n, to + first);
      }
      first += n;
    }
  });
}

void where(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  switch (dtype_size(out[0].dtype)) {
    case 1:
      return select<uint8_t>(in, out);
    case 2:
      return select<uint16_t>(in, out);
    case 4:
      return select<uint32_t>(in, out);
    default:
      return select<uint64_t>(in, out);
  }
}

}  // namespace

static const Registration where_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&where>("where");
});

}  // namespace mxlite
