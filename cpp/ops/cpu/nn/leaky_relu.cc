#include "cpp/ops/nn/leaky_relu.h"

#include "cpp/core/random.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/vector_kernels.h"
#include "cpp/ops/nn/gelu_forms.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

using Type = LeakyReLUType;
constexpr double kSeluScale = 1.0507009873554804934, kSeluAlpha = 1.6732632423543772848;

// Each thread copies the function object, because the compiler cannot vectorize a loop that reads
// its members through a reference.
template <class T, class F>
void map(const T* x, T* y, int64_t n, F f) {
  cpu::parallel_ranges(n, 4, [=](int64_t begin, int64_t end, int) {
    const F apply = f;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(apply(static_cast<ComputeType<T>>(x[i])));
  });
}
template <class T, class F>
void map_backward(Inputs in, T* y, F slope) {
  using Acc = ComputeType<T>;
  const T *grad = in[0].as<T>(), *x = in[1].as<T>();
  cpu::parallel_ranges(in[0].size(), 4, [=](int64_t begin, int64_t end, int) {
    const F apply = slope;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      y[i] = static_cast<T>(static_cast<Acc>(grad[i]) * apply(static_cast<Acc>(x[i])));
  });
}

template <class Form, class T>
void gelu(const T* x, T* y, int64_t n) {
  if constexpr (cpu::kHasVectorKernels<T>) {
    const auto& kernels = cpu::vector_kernels<T>();
    const auto run = std::is_same_v<Form, ErfGelu> ? kernels.gelu : kernels.gelu_tanh;
    cpu::parallel_ranges(
        n, 4, [=](int64_t begin, int64_t end, int) { run(x + begin, y + begin, end - begin); });
  } else {
    map(x, y, n, [](ComputeType<T> v) { return Form::value(v); });
  }
}
template <class Form, class T>
void gelu_backward(Inputs in, T* y) {
  if constexpr (cpu::kHasVectorKernels<T>) {
    const T *const grad = in[0].as<T>(), *const x = in[1].as<T>();
    const auto& kernels = cpu::vector_kernels<T>();
    const auto run =
        std::is_same_v<Form, ErfGelu> ? kernels.gelu_backward : kernels.gelu_tanh_backward;
    cpu::parallel_ranges(in[0].size(), 4, [=](int64_t begin, int64_t end, int) {
      run(grad + begin, x + begin, y + begin, end - begin);
    });
  } else {
    map_backward<T>(in, y, [](ComputeType<T> v) { return Form::slope(v); });
  }
}

// Computes GELU and its gradient in one loop, because they share most of their work.
template <class Form, class T>
void gelu_and_backward(Inputs in, Outputs out) {
  const T *const grad = in[0].as<T>(), *const x = in[1].as<T>();
  T *const data_grad = out[0].as<T>(), *const y = out[1].as<T>();
  cpu::parallel_ranges(in[0].size(), 4, [=](int64_t begin, int64_t end, int) {
    if constexpr (cpu::kHasVectorKernels<T>) {
      const auto& kernels = cpu::vector_kernels<T>();
      const auto run = std::is_same_v<Form, ErfGelu> ? kernels.gelu_and_backward
                                                     : kernels.gelu_tanh_and_backward;
      run(grad + begin, x + begin, data_grad + begin, y + begin, end - begin);
    } else {
      using Acc = ComputeType<T>;
      for (int64_t i = begin; i < end; ++i) {
        const Acc v = static_cast<Acc>(x[i]), g = static_cast<Acc>(grad[i]);
        data_grad[i] = static_cast<T>(g * Form::slope(v));
        y[i] = static_cast<T>(Form::value(v));
      }
    }
  });
}

// gamma of element i is gamma[i / inner % count].
struct GammaIndex {
  int64_t inner, count;
};
GammaIndex gamma_index(const Shape& data, const Shape& gamma) {
  return {data.ndim() > 1 ? data.product(2, data.ndim()) : 1, gamma.size()};
}

template <class T>
void prelu(Inputs in, T* y) {
  using Acc = ComputeType<T>;
  const auto [inner, count] = gamma_index(in[0].shape, in[1].shape);
  const T *x = in[0].as<T>(), *gamma = in[1].as<T>();
  cpu::parallel_for(inner > 0 ? in[0].size() / inner : 0, inner, [&](int64_t row) {
    const Acc slope = static_cast<Acc>(gamma[row % count]);
    for (int64_t i = row * inner; i < (row + 1) * inner; ++i) {
      const Acc v = static_cast<Acc>(x[i]);
      y[i] = static_cast<T>(v > 0 ? v : v * slope);
    }
  });
}

template <class T>
void prelu_backward(KernelContext& ctx, Inputs in, Outputs out) {
  using Acc = ComputeType<T>;
  const auto [inner, count] = gamma_index(in[1].shape, in[2].shape);
  const T *grad = in[0].as<T>(), *x = in[1].as<T>(), *gamma = in[2].as<T>();
  double* sums = static_cast<double*>(ctx.scratch(static_cast<size_t>(count) * sizeof(double)));
  std::fill_n(sums, count, 0.0);
  for (int64_t row = 0; inner > 0 && row < in[1].size() / inner; ++row) {
    const Acc slope = static_cast<Acc>(gamma[row % count]);
    Acc sum = 0;
    for (int64_t i = row * inner; i < (row + 1) * inner; ++i) {
      const Acc v = static_cast<Acc>(x[i]), g = static_cast<Acc>(grad[i]);
      out[0].as<T>()[i] = static_cast<T>(v > 0 ? g : g * slope);
      sum += v > 0 ? Acc(0) : g * v;
    }
    sums[row % count] += sum;
  }
  for (int64_t c = 0; c < count; ++c) out[1].as<T>()[c] = static_cast<T>(static_cast<Acc>(sums[c]));
}

template <class T>
void rrelu(const KernelContext& ctx, const LeakyReLUParams& p, const T* x, Outputs out) {
  using Acc = ComputeType<T>;
  T *y = out[0].as<T>(), *factor = out[1].as<T>();
  const Acc low = static_cast<Acc>(p.lower_bound), range = static_cast<Acc>(p.upper_bound) - low;
  cpu::parallel_for((out[0].size() + 3) / 4, 16, [&](int64_t quad) {
    const auto bits = philox(ctx.random.seed, ctx.random.offset + static_cast<uint64_t>(quad));
    const int64_t end = std::min(quad * 4 + 4, out[0].size());
    for (int64_t i = quad * 4; i < end; ++i) {
      const Acc v = static_cast<Acc>(x[i]);
      const Acc draw = ctx.training ? static_cast<Acc>(to_uniform(bits[i % 4])) : Acc(0.5);
      const Acc slope = v > 0 ? Acc(1) : low + range * draw;
      factor[i] = static_cast<T>(slope);
      y[i] = static_cast<T>(v * slope);
    }
  });
}

void leaky_relu_native(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  dispatch_floating("LeakyReLU", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const T* x = in[0].as<T>();
    T* y = out[0].as<T>();
    const int64_t n = in[0].size();
    const Acc slope = static_cast<Acc>(p.slope);
    switch (p.act_type) {
      case Type::kLeaky:
        return map(x, y, n, [=](Acc v) { return v > 0 ? v : v * slope; });
      case Type::kElu:
        return map(x, y, n, [=](Acc v) { return v > 0 ? v : slope * pointwise::expm1_of(v); });
      case Type::kSelu:
        return map(x, y, n, [](Acc v) {
          return static_cast<Acc>(kSeluScale) *
                 (v > 0 ? v : static_cast<Acc>(kSeluAlpha) * pointwise::expm1_of(v));
        });
      case Type::kGelu:
        return gelu<ErfGelu>(x, y, n);
      case Type::kGeluTanh:
        return gelu<TanhGelu>(x, y, n);
      case Type::kPrelu:
        return prelu<T>(in, y);
      case Type::kRrelu:
        return rrelu<T>(ctx, p, x, out);
    }
  });
}

void leaky_relu_backward_native(KernelContext& ctx, const LeakyReLUParams& p, Inputs in,
                                Outputs out) {
  dispatch_floating("LeakyReLU", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    T* y = out[0].as<T>();
    const Acc slope = static_cast<Acc>(p.slope);
    switch (p.act_type) {
      case Type::kElu:
        return map_backward<T>(
            in, y, [=](Acc v) { return v > 0 ? Acc(1) : slope * pointwise::exp_of(v); });
      case Type::kSelu:
        return map_backward<T>(in, y, [](Acc v) {
          return static_cast<Acc>(kSeluScale) *
                 (v > 0 ? Acc(1) : static_cast<Acc>(kSeluAlpha) * pointwise::exp_of(v));
        });
      case Type::kGelu:
        return gelu_backward<ErfGelu>(in, y);
      case Type::kGeluTanh:
        return gelu_backward<TanhGelu>(in, y);
      case Type::kPrelu:
        return prelu_backward<T>(ctx, in, out);
      default:
        return map_backward<T>(in, y, [=](Acc v) { return v > 0 ? Acc(1) : slope; });
    }
  });
}

void gelu_and_backward_native(KernelContext&, const LeakyReLUParams& p, Inputs in, Outputs out) {
  dispatch_floating("LeakyReLU", in[0].dtype, [&]<class T>(T) {
    if (p.act_type == Type::kGelu)
      gelu_and_backward<ErfGelu, T>(in, out);
    else
      gelu_and_backward<TanhGelu, T>(in, out);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<leaky_relu_native>("LeakyReLU");
  ops.cpu_kernel<leaky_relu_backward_native>("_leaky_relu_backward");
  ops.cpu_kernel<gelu_and_backward_native>("_gelu_and_backward");
});

}  // namespace mxlite
