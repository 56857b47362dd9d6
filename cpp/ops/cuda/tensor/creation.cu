// Arrays of one value: _zeros, _ones, _full and similar operators; shapes and sizes.
#include <algorithm>
#include <cstring>

#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/creation.h"

namespace mxlite {
namespace {

template <class Word>
__global__ void fill_kernel(Word* out, Word word, int64_t n) {
  for (int64_t i = cuda::global_index(); i < n; i += cuda::grid_stride()) out[i] = word;
}

template <class Word>
void fill_words(KernelContext& ctx, const TensorRef& out, const void* value) {
  Word word;
  std::memcpy(&word, value, sizeof word);
  cuda::launch_items(ctx, fill_kernel<Word>, out.size(), out.as<Word>(), word, out.size());
}

// Chooses a kernel by the element size and passes it the bits of the value, so that four kernels
// serve all dtypes.
void fill(KernelContext& ctx, const TensorRef& out, Number value) {
  if (out.size() == 0) return;
  alignas(8) unsigned char stored[8];
  dispatch_dtype(out.dtype, [&](auto t) {
    using T = decltype(t);
    const T element = value.as<T>();
    std::memcpy(stored, &element, sizeof element);
  });
  switch (dtype_size(out.dtype)) {
    case 1:
      return fill_words<uint8_t>(ctx, out, stored);
    case 2:
      return fill_words<uint16_t>(ctx, out, stored);
    case 4:
      return fill_words<uint32_t>(ctx, out, stored);
    default:
      return fill_words<uint64_t>(ctx, out, stored);
  }
}

void zeros(KernelContext& ctx, const FillParams&, Inputs, Outputs out) { fill(ctx, out[0], 0); }
void ones(KernelContext& ctx, const FillParams&, Inputs, Outputs out) { fill(ctx, out[0], 1); }
void full(KernelContext& ctx, const FullParams& p, Inputs, Outputs out) {
  fill(ctx, out[0], p.value);
}
void zeros_like(KernelContext& ctx, const LikeParams&, Inputs, Outputs out) {
  fill(ctx, out[0], 0);
}
void ones_like(KernelContext& ctx, const LikeParams&, Inputs, Outputs out) { fill(ctx, out[0], 1); }

// Values that are known on the host are passed as kernel arguments.
struct Numbers {
  int64_t values[Shape::kMaxNdim];
};
__global__ void write_numbers(int64_t n, Numbers numbers, int64_t* out) {
  for (int64_t i = cuda::global_index(); i < n; i += cuda::grid_stride())
    out[i] = numbers.values[i];
}
void shape_array(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  Numbers numbers{};
  std::copy(in[0].shape.begin(), in[0].shape.end(), numbers.values);
  cuda::launch_items(ctx, write_numbers, out[0].size(), out[0].size(), numbers,
                     out[0].as<int64_t>());
}
void size_array(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  cuda::launch_items(ctx, write_numbers, 1, int64_t{1}, Numbers{{in[0].size()}},
                     out[0].as<int64_t>());
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&zeros>("_zeros");
  ops.cuda_kernel<&ones>("_ones");
  ops.cuda_kernel<&full>("_full");
  ops.cuda_kernel<&zeros_like>("zeros_like", kStrided);
  ops.cuda_kernel<&ones_like>("ones_like", kStrided);
  ops.cuda_kernel<&shape_array>("shape_array", kStrided);
  ops.cuda_kernel<&size_array>("size_array", kStrided);
});

}  // namespace mxlite
