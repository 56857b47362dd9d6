#include "cpp/ops/tensor/depth_to_space.h"

#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// `deep` is (N, b, b, C, H, W), `wide` is (N, C, H, b, W, b), and wide_shape is (N, C, H*b, W*b).
cpu::CopyAxes describe(const Shape& wide_shape, int64_t b, bool to_wide) {
  const int64_t channels = wide_shape[1], height = wide_shape[2] / b, width = wide_shape[3] / b;
  const int64_t plane = height * width, row = width * b;
  struct Axis {
    int64_t size, deep, wide;
  };
  const Axis axes[] = {{wide_shape[0], channels * b * b * plane, channels * b * b * plane},
                       {b, b * channels * plane, row},
                       {b, channels * plane, 1},
                       {channels, plane, b * b * plane},
                       {height, width, b * row},
                       {width, 1, b}};
  cpu::CopyAxes result;
  for (const Axis& a : axes)
    result.push_back(to_wide ? cpu::CopyAxis{a.size, a.wide, a.deep}
                             : cpu::CopyAxis{a.size, a.deep, a.wide});
  return result;
}

void depth_to_space_native(KernelContext&, const BlockSizeParams& p, Inputs in, Outputs out) {
  cpu::strided_copy(dtype_size(in[0].dtype), describe(out[0].shape, p.block_size, true),
                    out[0].data, in[0].data);
}

void space_to_depth_native(KernelContext&, const BlockSizeParams& p, Inputs in, Outputs out) {
  cpu::strided_copy(dtype_size(in[0].dtype), describe(in[0].shape, p.block_size, false),
                    out[0].data, in[0].data);
}

}  // namespace

static const Registration depth_to_space_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&depth_to_space_native>("depth_to_space");
  ops.cpu_kernel<&space_to_depth_native>("space_to_depth");
});

}  // namespace mxlite
