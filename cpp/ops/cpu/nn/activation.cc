#include "cpp/ops/nn/activation.h"

#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/pointwise/unary_functors.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class T, class F>
void map(const TensorRef& in, const TensorRef& out, F f) {
  const T* x = in.as<T>();
  T* y = out.as<T>();
  cpu::parallel_ranges(in.size(), 1, [&](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(f(static_cast<ComputeType<T>>(x[i])));
  });
}

// Computes grad * slope(value).
template <class T, class F>
void map_backward(Inputs in, const TensorRef& out, F slope) {
  const T *grad = in[0].as<T>(), *value = in[1].as<T>();
  T* y = out.as<T>();
  cpu::parallel_ranges(out.size(), 1, [&](int64_t begin, int64_t end, int) {
    using Acc = ComputeType<T>;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(static_cast<Acc>(grad[i]) * slope(static_cast<Acc>(value[i])));
  });
}

void activation_native(KernelContext&, const ActivationParams& p, Inputs in, Outputs out) {
  using Type = ActivationType;
  if (p.act_type == Type::kRelu) {
    dispatch_dtype(in[0].dtype, [&]<class T>(T) {
      map<T>(in[0], out[0], [](auto x) { return pointwise::Relu::apply(x, &x); });
    });
    return;
  }
  dispatch_floating("Activation", in[0].dtype, [&]<class T>(T) {
    switch (p.act_type) {
      case Type::kSigmoid:
        return map<T>(in[0], out[0], [](auto x) { return pointwise::sigmoid_of(x); });
      case Type::kTanh:
        return map<T>(in[0], out[0], [](auto x) { return pointwise::tanh_of(x); });
      case Type::kSoftrelu:
        return map<T>(in[0], out[0], [](auto x) { return pointwise::softrelu_of(x); });
      case Type::kSoftsign:
        return map<T>(in[0], out[0], [](auto x) { return x / (1 + std::abs(x)); });
      case Type::kRelu:
        break;
    }
  });
}

void activation_backward_native(KernelContext&, const ActivationParams& p, Inputs in, Outputs out) {
  using Type = ActivationType;
  if (p.act_type == Type::kRelu) {
    dispatch_dtype(in[0].dtype, [&]<class T>(T) {
      map_backward<T>(in, out[0], [](auto y) { return decltype(y)(y > 0 ? 1 : 0); });
    });
    return;
  }
  dispatch_floating("_activation_backward", in[0].dtype, [&]<class T>(T) {
    switch (p.act_type) {
      case Type::kSigmoid:
        return map_backward<T>(in, out[0], [](auto y) { return y * (1 - y); });
      case Type::kTanh:
        return map_backward<T>(in, out[0], [](auto y) { return 1 - y * y; });
      case Type::kSoftrelu:
        return map_backward<T>(in, out[0], [](auto y) { return -pointwise::expm1_of(-y); });
      case Type::kSoftsign:
        return map_backward<T>(in, out[0], [](auto x) {
          const auto base = 1 + std::abs(x);
          return 1 / (base * base);
        });
      case Type::kRelu:
        break;
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<activation_native>("Activation");
  ops.cpu_kernel<activation_backward_native>("_activation_backward");
});

}  // namespace mxlite
