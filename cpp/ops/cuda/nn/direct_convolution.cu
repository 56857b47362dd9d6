// One thread per element of the result; for gradients of weights, one block per element.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/nn/direct_convolution.h"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"

namespace mxlite::cuda {
namespace {

// The convolution extended to three spatial dimensions; added leading dimensions have size 1.
struct Direct {
  int64_t batch, channels, filters, groups;
  int64_t size[3], output[3], kernel[3], stride[3], pad[3], dilate[3];
  int64_t data_step[5], weight_step[5], output_step[5];  // batch, channel, spatial
  bool bias, relu, addend;
  DType dtype;
};

void spread(const ConvolutionProblem::Numbers& dims, const ConvolutionProblem& p, int64_t* size,
            int64_t* step) {
  const auto strides = p.strides_of(dims);
  step[0] = strides[0];
  step[1] = strides[1];
  for (int i = 0; i < 3; ++i) {
    const int axis = p.ndim - 3 + i;  // if negative, an added dimension of size 1
    size[i] = axis >= 2 ? dims[static_cast<size_t>(axis)] : 1;
    step[2 + i] = axis >= 2 ? strides[static_cast<size_t>(axis)] : 0;
  }
}

Direct describe(const ConvolutionProblem& p) {
  Direct d{};
  d.batch = p.data[0];
  d.channels = p.data[1];
  d.filters = p.output[1];
  d.groups = p.groups;
  d.dtype = p.dtype;
  d.bias = p.bias;
  d.relu = p.relu;
  d.addend = p.addend;
  spread(p.data, p, d.size, d.data_step);
  spread(p.weight, p, d.kernel, d.weight_step);
  spread(p.output, p, d.output, d.output_step);
  for (int i = 0; i < 3; ++i) {
    const int k = p.ndim - 5 + i;
    d.stride[i] = k >= 0 ? p.stride[static_cast<size_t>(k)] : 1;
    d.pad[i] = k >= 0 ? p.pad[static_cast<size_t>(k)] : 0;
    d.dilate[i] = k >= 0 ? p.dilate[static_cast<size_t>(k)] : 1;
  }
  return d;
}

// Position of element i of (batch, channels, size) in row-major order.
struct Position {
  int64_t n, c, at[3];
};
__device__ __forceinline__ Position position(int64_t i, int64_t channels,
                                             const int64_t (&size)[3]) {
  Position p;
  p.at[2] = i % size[2];
  i /= size[2];
  p.at[1] = i % size[1];
  i /= size[1];
  p.at[0] = i % size[0];
  i /= size[0];
  p.c = i % channels;
  p.n = i / channels;
  return p;
}
__device__ __forceinline__ int64_t offset(const int64_t (&step)[5], int64_t n, int64_t c,
                                          const int64_t (&at)[3]) {
  return n * step[0] + c * step[1] + at[0] * step[2] + at[1] * step[3] + at[2] * step[4];
}

template <class C>
__global__ void forward(const __grid_constant__ Direct d, ConvolutionOperands o) {
  const int64_t n = d.batch * d.filters * d.output[0] * d.output[1] * d.output[2];
  const int64_t group_channels = d.channels / d.groups, group_filters = d.filters / d.groups;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Position p = position(i, d.filters, d.output);
    const int64_t c0 = p.c / group_filters * group_channels;
    C sum = C(0);
    int64_t k[3], x[3];
    for (k[0] = 0; k[0] < d.kernel[0]; ++k[0])
      for (k[1] = 0; k[1] < d.kernel[1]; ++k[1])
        for (k[2] = 0; k[2] < d.kernel[2]; ++k[2]) {
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            x[a] = p.at[a] * d.stride[a] - d.pad[a] + k[a] * d.dilate[a];
            inside &= x[a] >= 0 && x[a] < d.size[a];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < group_channels; ++c)
            sum += load_as<C>(o.data, d.dtype, offset(d.data_step, p.n, c0 + c, x)) *
                   load_as<C>(o.weight, d.dtype, offset(d.weight_step, p.c, c, k));
        }
    const int64_t at = offset(d.output_step, p.n, p.c, p.at);
    if (d.bias) sum += load_as<C>(o.bias, d.dtype, p.c);
    if (d.addend) sum += load_as<C>(o.addend, d.dtype, at);
    if (d.relu && sum < C(0)) sum = C(0);  // keeps NaN
    store_as<C>(o.output, d.dtype, at, sum);
  }
}

template <class C>
__global__ void backward_data(const __grid_constant__ Direct d, ConvolutionOperands o) {
  const int64_t n = d.batch * d.channels * d.size[0] * d.size[1] * d.size[2];
  const int64_t group_channels = d.channels / d.groups, group_filters = d.filters / d.groups;
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const Position p = position(i, d.channels, d.size);
    const int64_t f0 = p.c / group_channels * group_filters, c = p.c % group_channels;
    C sum = C(0);
    int64_t k[3], y[3];
    for (k[0] = 0; k[0] < d.kernel[0]; ++k[0])
      for (k[1] = 0; k[1] < d.kernel[1]; ++k[1])
        for (k[2] = 0; k[2] < d.kernel[2]; ++k[2]) {
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            const int64_t place = p.at[a] + d.pad[a] - k[a] * d.dilate[a];
            y[a] = place / d.stride[a];
            inside &= place >= 0 && place % d.stride[a] == 0 && y[a] < d.output[a];
          }
          if (!inside) continue;
          for (int64_t f = 0; f < group_filters; ++f)
            sum += load_as<C>(o.output, d.dtype, offset(d.output_step, p.n, f0 + f, y)) *
                   load_as<C>(o.weight, d.dtype, offset(d.weight_step, f0 + f, c, k));
        }
    if (d.bias) sum += load_as<C>(o.bias, d.dtype, p.c);
    store_as<C>(o.data, d.dtype, offset(d.data_step, p.n, p.c, p.at), sum);
  }
}

template <class C>
__global__ void backward_weight(const __grid_constant__ Direct d, ConvolutionOperands o) {
  const int64_t group_channels = d.channels / d.groups, group_filters = d.filters / d.groups;
  const int64_t n = d.filters * group_channels * d.kernel[0] * d.kernel[1] * d.kernel[2];
  const int64_t places = d.batch * d.output[0] * d.output[1] * d.output[2];
  for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const Position w = position(i, group_channels, d.kernel);  // here n is the filter
    const int64_t channel = w.n / group_filters * group_channels + w.c;
    C sum = C(0);
    for (int64_t k = threadIdx.x; k < places; k += blockDim.x) {
      const Position p = position(k, 1, d.output);
      int64_t x[3];
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        x[a] = p.at[a] * d.stride[a] - d.pad[a] + w.at[a] * d.dilate[a];
        inside &= x[a] >= 0 && x[a] < d.size[a];
      }
      if (inside)
        sum += load_as<C>(o.output, d.dtype, offset(d.output_step, p.n, w.n, p.at)) *
               load_as<C>(o.data, d.dtype, offset(d.data_step, p.n, channel, x));
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
      store_as<C>(o.weight, d.dtype, offset(d.weight_step, w.n, w.c, w.at), sum);
  }
}

template <class C>
void run(KernelContext& ctx, const ConvolutionProblem& p, const ConvolutionOperands& o) {
  const Direct d = describe(p);
  const auto elements = [&](const ConvolutionProblem::Numbers& dims) {
    int64_t n = 1;
    for (int i = 0; i < p.ndim; ++i) n *= dims[static_cast<size_t>(i)];
    return n;
  };
  switch (p.direction) {
    case ConvolutionDirection::kForward:
      return launch_items(ctx, forward<C>, elements(p.output), d, o);
    case ConvolutionDirection::kBackwardData:
      return launch_items(ctx, backward_data<C>, elements(p.data), d, o);
    case ConvolutionDirection::kBackwardWeight:
      return launch(ctx, backward_weight<C>, blocks_per_task(ctx, elements(p.weight)), kThreads, d,
                    o);
  }
}

}  // namespace

void direct_convolution(KernelContext& ctx, const ConvolutionProblem& p,
                        const ConvolutionOperands& o) {
  if (p.dtype == DType::kFloat64)
    run<double>(ctx, p, o);
  else if (p.dtype == DType::kFloat32 || is_half(p.dtype))
    run<float>(ctx, p, o);
  else if (p.dtype == DType::kUInt64)
    run<uint64_t>(ctx, p, o);
  else
    run<int64_t>(ctx, p, o);
}

}  // namespace mxlite::cuda
