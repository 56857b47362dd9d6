#include "cpp/ops/nn/l2_normalization.h"

#include <cmath>
#include <type_traits>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Calls fn(first element) for every vector, unless vectors are empty. Elements are `inner` apart.
void for_vectors(const ChannelBlocks& b, auto&& fn) {
  if (b.channels == 0) return;
  cpu::parallel_for(b.outer * b.inner, b.channels * 2,
                    [&](int64_t r) { fn(r / b.inner * b.channels * b.inner + r % b.inner); });
}

// Returns the sum of a * b. A `step` of 1 is a compile-time constant, so that the loop vectorizes.
template <class Acc, class T, class Step>
double product_sum(const T* a, const T* b, int64_t n, Step step) {
  return cpu::sum_of<Acc>(n, [=](int64_t i) { return Acc(a[i * step]) * Acc(b[i * step]); });
}

using One = std::integral_constant<int64_t, 1>;

template <class T, class Step>
void forward(const L2NormalizationParams& p, const ChannelBlocks& b, const T* data, T* result,
             Step given) {
  using Acc = ComputeType<T>;
  for_vectors(b, [&](int64_t first) {
    const T* const x = data + first;
    T* const y = result + first;
    const Step step = given;
    const int64_t n = b.channels;
    const Acc scale = static_cast<Acc>(1 / std::sqrt(product_sum<Acc>(x, x, n, step) + p.eps));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i * step] = static_cast<T>(Acc(x[i * step]) * scale);
  });
}

// With y = x / norm: grad = (g - y * sum(g * y)) / norm.
template <class T, class Step>
void backward(const L2NormalizationParams& p, const ChannelBlocks& b, Inputs in, T* result,
              Step given) {
  using Acc = ComputeType<T>;
  for_vectors(b, [&](int64_t first) {
    const T *const grad = in[0].as<T>() + first, *const x = in[1].as<T>() + first;
    T* const target = result + first;
    const Step step = given;
    const int64_t n = b.channels;
    const double norm = std::sqrt(product_sum<Acc>(x, x, n, step) + p.eps);
    const double dot = product_sum<Acc>(grad, x, n, step);
    const Acc scale = static_cast<Acc>(1 / norm), slope = static_cast<Acc>(dot / norm / norm);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      target[i * step] = static_cast<T>((Acc(grad[i * step]) - Acc(x[i * step]) * slope) * scale);
  });
}

void l2_normalization_native(KernelContext&, const L2NormalizationParams& p, Inputs in,
                             Outputs out) {
  const ChannelBlocks b = p.blocks(in[0].shape);
  dispatch_floating("L2Normalization", in[0].dtype, [&]<class T>(T) {
    const T* const x = in[0].as<T>();
    T* const y = out[0].as<T>();
    b.inner == 1 ? forward(p, b, x, y, One()) : forward(p, b, x, y, b.inner);
  });
}

void l2_normalization_backward_native(KernelContext&, const L2NormalizationParams& p, Inputs in,
                                      Outputs out) {
  const ChannelBlocks b = p.blocks(in[1].shape);
  dispatch_floating("L2Normalization", in[1].dtype, [&]<class T>(T) {
    T* const target = out[0].as<T>();
    b.inner == 1 ? backward(p, b, in, target, One()) : backward(p, b, in, target, b.inner);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<cpu::flushing<l2_normalization_native>>("L2Normalization");
  ops.cpu_kernel<cpu::flushing<l2_normalization_backward_native>>("_l2_normalization_backward");
});

}  // namespace mxlite
