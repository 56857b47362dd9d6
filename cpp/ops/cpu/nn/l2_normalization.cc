#include "cpp/ops/nn/l2_normalization.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/register.h"
#include "cpp/ops/op_schema.h"

namespace mxlite {
namespace {

// fn(first element) for every vector; its elements are `inner` apart.
template <class F>
void for_vectors(const ChannelBlocks& b, F&& fn) {
  cpu::parallel_for(b.outer * b.inner, b.channels * 2,
                    [&](int64_t r) { fn(r / b.inner * b.channels * b.inner + r % b.inner); });
}

template <class T>
double norm_of(const L2NormalizationParams& p, const ChannelBlocks& b, const T* x) {
  double sum = 0;
  for (int64_t i = 0; i < b.channels; ++i) {
    const double v = static_cast<double>(x[i * b.inner]);
    sum += v * v;
  }
  return std::sqrt(sum + p.eps);
}

void l2_normalization_native(KernelContext&, const L2NormalizationParams& p, Inputs in,
                             Outputs out) {
  const ChannelBlocks b = p.blocks(in[0].shape);
  dispatch_floating("L2Normalization", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for_vectors(b, [&](int64_t first) {
      const T* x = in[0].as<T>() + first;
      T* y = out[0].as<T>() + first;
      const Acc scale = static_cast<Acc>(1 / norm_of(p, b, x));
      for (int64_t i = 0; i < b.channels; ++i)
        y[i * b.inner] = static_cast<T>(static_cast<Acc>(x[i * b.inner]) * scale);
    });
  });
}

// With y = x / norm: grad = (g - y * sum(g * y)) / norm.
void l2_normalization_backward_native(KernelContext&, const L2NormalizationParams& p, Inputs in,
                                      Outputs out) {
  const ChannelBlocks b = p.blocks(in[1].shape);
  dispatch_floating("L2Normalization", in[1].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    for_vectors(b, [&](int64_t first) {
      const T *grad = in[0].as<T>() + first, *x = in[1].as<T>() + first;
      T* target = out[0].as<T>() + first;
      const double norm = norm_of(p, b, x);
      double dot = 0;
      for (int64_t i = 0; i < b.channels; ++i)
        dot += static_cast<double>(grad[i * b.inner]) * static_cast<double>(x[i * b.inner]);
      const Acc scale = static_cast<Acc>(1 / norm), slope = static_cast<Acc>(dot / norm / norm);
      for (int64_t i = 0; i < b.channels; ++i)
        target[i * b.inner] = static_cast<T>(
            (static_cast<Acc>(grad[i * b.inner]) - static_cast<Acc>(x[i * b.inner]) * slope) *
            scale);
    });
  });
}

}  // namespace

void register_l2_normalization_cpu(OpRegistry& ops) {
  ops.kernel<l2_normalization_native>("L2Normalization", DeviceType::kCPU);
  ops.kernel<l2_normalization_backward_native>("_l2_normalization_backward", DeviceType::kCPU);
}

}  // namespace mxlite
