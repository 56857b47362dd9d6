// Convolution and deconvolution by im2col and a matrix product, image by image. 16-bit floats are
// computed in float and rounded once at the end.
#include "cpp/ops/nn/convolution.h"

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/nn/deconvolution.h"
#include "cpp/ops/cpu/nn/unfold.h"
#include "cpp/ops/nn/deconvolution.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using cpu::convert;
using cpu::part;
using cpu::ScratchPlan;
using cpu::UnfoldGeometry;

// A convolution from `image` to `output`, group by group. Deconvolution writes `image`.
struct Problem {
  SpatialDims image, output;
  int64_t groups = 1;
  bool channels_last = false;
  UnfoldGeometry geometry;
  int64_t group_filters = 0, depth = 0, positions = 0;

  int64_t image_size() const { return image.channels * image.spatial_size(); }
  int64_t output_size() const { return output.channels * positions; }
  int64_t weight_size() const { return output.channels * depth; }
  int64_t image_offset(int64_t g) const {
    return g * geometry.channels * (channels_last ? 1 : image.spatial_size());
  }
  int64_t output_offset(int64_t g) const {
    return g * group_filters * (channels_last ? 1 : positions);
  }
};

Problem make_problem(const ConvolutionParams& p, const Shape& image, const Shape& output) {
  Problem q;
  q.channels_last = p.channels_last();
  q.image = spatial_dims(image, q.channels_last);
  q.output = spatial_dims(output, q.channels_last);
  q.groups = p.num_group;
  UnfoldGeometry& g = q.geometry;
  g.window = p.window();
  g.channels = q.image.channels / q.groups;
  std::copy(q.image.size, q.image.size + 3, g.size);
  std::copy(q.output.size, q.output.size + 3, g.output);
  g.channels_last = q.channels_last;
  g.pixel_stride = q.channels_last ? q.image.channels : 1;
  g.channel_stride = q.channels_last ? 1 : q.image.spatial_size();
  q.group_filters = q.output.channels / q.groups;
  q.depth = g.rows();
  q.positions = g.outputs();
  return q;
}

// Returns the array in type Acc. 16-bit floats are converted to `buffer`; other arrays are returned
// unchanged.
template <class T, class Acc>
const Acc* as_acc(const TensorRef& t, Acc* buffer) {
  if constexpr (std::is_same_v<T, Acc>) {
    return t.as<T>();
  } else {
    convert(t.as<T>(), buffer, t.size());
    return buffer;
  }
}
template <class T, class Acc>
int64_t buffer_size(int64_t count) {
  return std::is_same_v<T, Acc> ? 0 : count;
}

template <class Acc, class T>
void store_with_bias(const Problem& q, const Acc* from, const T* bias, T* to) {
  if constexpr (std::is_same_v<T, Acc>)
    if (!bias) return;
  cpu::parallel_ranges(q.output_size(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = q.channels_last ? i % q.output.channels : i / q.positions;
      to[i] = static_cast<T>(bias ? from[i] + static_cast<Acc>(bias[c]) : from[i]);
    }
  });
}

template <class T>
void forward(KernelContext& ctx, const Problem& q, Inputs in, const TensorRef& out) {
  using Acc = ComputeType<T>;
  constexpr DType kType = DTypeOf<Acc>::value;
  ScratchPlan plan;
  const size_t col_at = plan.add<Acc>(q.depth * q.positions);
  const size_t weight_at = plan.add<Acc>(buffer_size<T, Acc>(q.weight_size()));
  const size_t out_at = plan.add<Acc>(buffer_size<T, Acc>(q.output_size()));
  void* block = ctx.scratch(plan.bytes());
  Acc* col = part<Acc>(block, col_at);
  const Acc* weight = as_acc<T>(in[1], part<Acc>(block, weight_at));
  const T* bias = in.size() > 2 ? in[2].as<T>() : nullptr;
  for (int64_t n = 0; n < q.image.batch; ++n) {
    T* target = out.as<T>() + n * q.output_size();
    Acc* sum = part<Acc>(block, out_at);
    if constexpr (std::is_same_v<T, Acc>) sum = target;
    for (int64_t g = 0; g < q.groups; ++g) {
      cpu::unfold(q.geometry, in[0].as<T>() + n * q.image_size() + q.image_offset(g), col);
      const Acc* w = weight + g * q.group_filters * q.depth;
      Acc* c = sum + q.output_offset(g);
      if (q.channels_last)
        cpu::gemm(kType, false, true, q.positions, q.group_filters, q.depth, col, q.depth, w,
                  q.depth, c, q.output.channels);
      else
        cpu::gemm(kType, false, false, q.group_filters, q.positions, q.depth, w, q.depth, col,
                  q.positions, c, q.positions);
    }
    store_with_bias(q, sum, bias, target);
  }
}

// image_grad[n] = fold(weight^T x output_grad[n]), plus bias for deconvolution.
template <class T>
void backward_data(KernelContext& ctx, const Problem& q, const TensorRef& output_grad,
                   const TensorRef& weight_ref, const T* bias, const TensorRef& image_grad) {
  using Acc = ComputeType<T>;
  constexpr DType kType = DTypeOf<Acc>::value;
  ScratchPlan plan;
  const size_t col_at = plan.add<Acc>(q.depth * q.positions);
  const size_t weight_at = plan.add<Acc>(buffer_size<T, Acc>(q.weight_size()));
  const size_t grad_at = plan.add<Acc>(buffer_size<T, Acc>(q.output_size()));
  void* block = ctx.scratch(plan.bytes());
  Acc* col = part<Acc>(block, col_at);
  const Acc* weight = as_acc<T>(weight_ref, part<Acc>(block, weight_at));
  for (int64_t n = 0; n < q.image.batch; ++n) {
    const T* source = output_grad.as<T>() + n * q.output_size();
    const Acc* grad = part<Acc>(block, grad_at);
    if constexpr (std::is_same_v<T, Acc>)
      grad = source;
    else
      convert(source, part<Acc>(block, grad_at), q.output_size());
    T* target = image_grad.as<T>() + n * q.image_size();
    for (int64_t g = 0; g < q.groups; ++g) {
      const Acc* w = weight + g * q.group_filters * q.depth;
      const Acc* o = grad + q.output_offset(g);
      if (q.channels_last)
        cpu::gemm(kType, false, false, q.positions, q.depth, q.group_filters, o, q.output.channels,
                  w, q.depth, col, q.depth);
      else
        cpu::gemm(kType, true, false, q.depth, q.positions, q.group_filters, w, q.depth, o,
                  q.positions, col, q.positions);
      cpu::fold(q.geometry, col, target + q.image_offset(g),
                bias ? bias + g * q.geometry.channels : nullptr);
    }
  }
}

template <class T>
void bias_gradient(const Problem& q, const T* grad, T* bias_grad) {
  using Acc = ComputeType<T>;
  const int64_t channels = q.output.channels, step = q.channels_last ? channels : 1;
  cpu::parallel_for(channels, q.image.batch * q.positions, [&](int64_t c) {
    Acc sum = 0;
    for (int64_t n = 0; n < q.image.batch; ++n) {
      const T* row = grad + n * q.output_size() + c * (q.channels_last ? 1 : q.positions);
      for (int64_t i = 0; i < q.positions; ++i)
        sum = static_cast<Acc>(sum + static_cast<Acc>(row[i * step]));
    }
    bias_grad[c] = static_cast<T>(sum);
  });
}

template <class T>
void backward_weight(KernelContext& ctx, const Problem& q, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  constexpr DType kType = DTypeOf<Acc>::value;
  ScratchPlan plan;
  const size_t col_at = plan.add<Acc>(q.depth * q.positions);
  const size_t weight_at = plan.add<Acc>(buffer_size<T, Acc>(q.weight_size()));
  const size_t grad_at = plan.add<Acc>(buffer_size<T, Acc>(q.output_size()));
  void* block = ctx.scratch(plan.bytes());
  Acc* col = part<Acc>(block, col_at);
  Acc* sum = part<Acc>(block, weight_at);
  if constexpr (std::is_same_v<T, Acc>) sum = out[0].as<T>();
  std::fill_n(sum, q.weight_size(), Acc(0));
  for (int64_t n = 0; n < q.image.batch; ++n) {
    const T* source = in[0].as<T>() + n * q.output_size();
    const Acc* grad = part<Acc>(block, grad_at);
    if constexpr (std::is_same_v<T, Acc>)
      grad = source;
    else
      convert(source, part<Acc>(block, grad_at), q.output_size());
    for (int64_t g = 0; g < q.groups; ++g) {
      cpu::unfold(q.geometry, in[1].as<T>() + n * q.image_size() + q.image_offset(g), col);
      const Acc* o = grad + q.output_offset(g);
      Acc* w = sum + g * q.group_filters * q.depth;
      if (q.channels_last)
        cpu::gemm(kType, true, false, q.group_filters, q.depth, q.positions, o, q.output.channels,
                  col, q.depth, w, q.depth, 1, 1);
      else
        cpu::gemm(kType, false, true, q.group_filters, q.depth, q.positions, o, q.positions, col,
                  q.positions, w, q.depth, 1, 1);
    }
  }
  if constexpr (!std::is_same_v<T, Acc>) convert(sum, out[0].as<T>(), q.weight_size());
  if (out.size() > 1) bias_gradient(q, in[0].as<T>(), out[1].as<T>());
}

void convolution_native(KernelContext& ctx, const ConvolutionParams& p, Inputs in, Outputs out) {
  const Problem q = make_problem(p, in[0].shape, out[0].shape);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) { forward<T>(ctx, q, in, out[0]); });
}

void convolution_backward_data_native(KernelContext& ctx, const ConvolutionDataGradParams& p,
                                      Inputs in, Outputs out) {
  const Problem q = make_problem(p, out[0].shape, in[0].shape);
  dispatch_dtype(in[0].dtype,
                 [&]<class T>(T) { backward_data<T>(ctx, q, in[0], in[1], nullptr, out[0]); });
}

void convolution_backward_weight_native(KernelContext& ctx, const ConvolutionParams& p, Inputs in,
                                        Outputs out) {
  const Problem q = make_problem(p, in[1].shape, in[0].shape);
  dispatch_dtype(in[0].dtype, [&]<class T>(T) { backward_weight<T>(ctx, q, in, out); });
}

}  // namespace

void cpu::deconvolution(KernelContext& ctx, const DeconvolutionParams& p, Inputs in, Outputs out) {
  const ConvolutionParams conv = transposed_convolution(p, in[0].shape);
  const Problem q = make_problem(conv, out[0].shape, in[0].shape);
  dispatch_floating("Deconvolution", in[0].dtype, [&]<class T>(T) {
    backward_data<T>(ctx, q, in[0], in[1], in.size() > 2 ? in[2].as<T>() : nullptr, out[0]);
  });
}

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<convolution_native>>("Convolution", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<convolution_backward_data_native>>("_convolution_backward_data",
                                                                  kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<convolution_backward_weight_native>>("_convolution_backward_weight",
                                                                    kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<cpu::deconvolution>>("Deconvolution", kWorkerOnly);
});

}  // namespace mxlite
