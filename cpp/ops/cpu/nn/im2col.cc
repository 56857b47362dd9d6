#include "cpp/ops/nn/im2col.h"

#include "cpp/ops/cpu/nn/unfold.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

cpu::UnfoldGeometry geometry(const Im2colParams& p, const Shape& image) {
  const SpatialDims d = spatial_dims(image, /*channels_last=*/false);
  const Shape counts = im2col_counts("im2col", p, image.span().subspan(2));
  cpu::UnfoldGeometry g;
  g.window = p.window();
  g.channels = d.channels;
  std::copy(d.size, d.size + 3, g.size);
  std::fill_n(g.output, 3, 1);
  std::copy(counts.begin(), counts.end(), g.output + 3 - counts.ndim());
  g.channel_stride = d.spatial_size();
  return g;
}

void im2col_native(KernelContext&, const Im2colParams& p, Inputs in, Outputs out) {
  const cpu::UnfoldGeometry g = geometry(p, in[0].shape);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    for (int64_t n = 0; n < in[0].shape[0]; ++n)
      cpu::unfold(g, in[0].as<T>() + n * g.channels * g.channel_stride,
                  out[0].as<T>() + n * g.rows() * g.outputs());
  });
}

void col2im_native(KernelContext& ctx, const Col2imParams& p, Inputs in, Outputs out) {
  const cpu::UnfoldGeometry g = geometry(p, out[0].shape);
  const int64_t size = g.rows() * g.outputs();
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    constexpr bool kConvert = !std::is_same_v<T, Acc>;
    Acc* buffer = static_cast<Acc*>(
        ctx.scratch(kConvert ? static_cast<size_t>(size) * sizeof(Acc) : size_t{64}));
    for (int64_t n = 0; n < in[0].shape[0]; ++n) {
      const T* col = in[0].as<T>() + n * size;
      T* image = out[0].as<T>() + n * g.channels * g.channel_stride;
      if constexpr (kConvert) {
        cpu::convert(col, buffer, size);
        cpu::fold(g, buffer, image);
      } else {
        cpu::fold(g, col, image);
      }
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<im2col_native>("im2col", {.inline_ok = false});
  ops.cpu_kernel<col2im_native>("col2im", {.inline_ok = false});
});

}  // namespace mxlite
