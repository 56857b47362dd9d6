#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/random.cuh"
#include "cpp/ops/nn/gelu_forms.h"
#include "cpp/ops/nn/leaky_relu.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

using Type = LeakyReLUType;
constexpr double kSeluScale = 1.0507009873554804934, kSeluAlpha = 1.6732632423543772848;

// p[0] is the slope.
struct Leaky {
  template <class T>
  static MX_HD T apply(T x, const T* p) {
    return x > T(0) ? x : x * p[0];
  }
};
struct Elu {
  template <class T>
  static MX_HD T apply(T x, const T* p) {
    return x > T(0) ? x : p[0] * pointwise::expm1_of(x);
  }
};
struct Selu {
  template <class T>
  static MX_HD T apply(T x, const T*) {
    return T(kSeluScale) * (x > T(0) ? x : T(kSeluAlpha) * pointwise::expm1_of(x));
  }
};
template <class Form>
struct Gelu {
  template <class T>
  static MX_HD T apply(T x, const T*) {
    return Form::value(x);
  }
};

struct LeakySlope {
  template <class T>
  static MX_HD T apply(T x, T slope) {
    return x > T(0) ? T(1) : slope;
  }
};
struct EluSlope {
  template <class T>
  static MX_HD T apply(T x, T slope) {
    return x > T(0) ? T(1) : slope * pointwise::exp_of(x);
  }
};
struct SeluSlope {
  template <class T>
  static MX_HD T apply(T x, T) {
    return T(kSeluScale) * (x > T(0) ? T(1) : T(kSeluAlpha) * pointwise::exp_of(x));
  }
};
template <class Form>
struct GeluSlope {
  template <class T>
  static MX_HD T apply(T x, T) {
    return Form::slope(x);
  }
};

template <class Slope, class C>
__global__ void slope_loop(int64_t n, DType dtype, const void* grad, const void* x, C slope,
                           void* out) {
  for (int64_t i = global_index(); i < n; i += grid_stride())
    store_as<C>(out, dtype, i,
                load_as<C>(grad, dtype, i) * Slope::apply(load_as<C>(x, dtype, i), slope));
}

template <class F, class C>
void forward(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  run_unary<F, C>(ctx, in[0], out[0], static_cast<C>(p.slope));
}
template <class Slope, class C>
void backward(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  launch_items(ctx, slope_loop<Slope, C>, in[0].size(), in[0].size(), in[0].dtype, in[0].data,
               in[1].data, static_cast<C>(p.slope), out[0].data);
}

// gamma of element i is gamma[i / inner % count].
template <class C>
__global__ void prelu_loop(int64_t n, DType dtype, const void* x, const void* gamma, int64_t inner,
                           int64_t count, void* y) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const C v = load_as<C>(x, dtype, i);
    store_as<C>(y, dtype, i, v > C(0) ? v : v * load_as<C>(gamma, dtype, i / inner % count));
  }
}

// One block per gamma computes the gradients of data and gamma in one pass over its elements.
template <class C>
__global__ void prelu_backward_loop(DType dtype, const void* grad, const void* x, const void* gamma,
                                    int64_t outer, int64_t count, int64_t inner, void* data_grad,
                                    void* gamma_grad) {
  for (int64_t c = blockIdx.x; c < count; c += gridDim.x) {
    const C slope = load_as<C>(gamma, dtype, c);
    C sum = C(0);
    for (int64_t k = threadIdx.x; k < outer * inner; k += blockDim.x) {
      const int64_t i = (k / inner * count + c) * inner + k % inner;
      const C v = load_as<C>(x, dtype, i), g = load_as<C>(grad, dtype, i);
      store_as<C>(data_grad, dtype, i, v > C(0) ? g : g * slope);
      sum += v > C(0) ? C(0) : g * v;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store_as<C>(gamma_grad, dtype, c, sum);
  }
}

struct GammaView {
  int64_t outer, count, inner;
};
GammaView gamma_view(const Shape& data, const Shape& gamma) {
  const int64_t inner = data.ndim() > 1 ? data.product(2, data.ndim()) : 1;
  const int64_t row = gamma.size() * inner;
  return {row > 0 ? data.size() / row : 0, gamma.size(), inner};
}

template <class C>
__global__ void rrelu_loop(int64_t n, DType dtype, const void* x, DeviceRandom random,
                           bool training, C low, C range, void* y, void* factor) {
  const RandomState state = random.load();
  for (int64_t quad = global_index(); quad * 4 < n; quad += grid_stride()) {
    const auto bits = philox(state.seed, state.offset + static_cast<uint64_t>(quad));
    for (int k = 0; k < 4 && quad * 4 + k < n; ++k) {
      const int64_t i = quad * 4 + k;
      const C v = load_as<C>(x, dtype, i);
      const C draw = training ? static_cast<C>(to_uniform(bits[k])) : C(0.5);
      const C slope = v > C(0) ? C(1) : low + range * draw;
      store_as<C>(factor, dtype, i, slope);
      store_as<C>(y, dtype, i, v * slope);
    }
  }
}

template <class C>
void run_forward(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  const int64_t n = in[0].size();
  switch (p.act_type) {
    case Type::kLeaky:
      return forward<Leaky, C>(ctx, p, in, out);
    case Type::kElu:
      return forward<Elu, C>(ctx, p, in, out);
    case Type::kSelu:
      return forward<Selu, C>(ctx, p, in, out);
    case Type::kGelu:
      return forward<Gelu<ErfGelu>, C>(ctx, p, in, out);
    case Type::kGeluTanh:
      return forward<Gelu<TanhGelu>, C>(ctx, p, in, out);
    case Type::kPrelu: {
      const GammaView v = gamma_view(in[0].shape, in[1].shape);
      return launch_items(ctx, prelu_loop<C>, n, n, in[0].dtype, in[0].data, in[1].data, v.inner,
                          v.count, out[0].data);
    }
    case Type::kRrelu: {
      const C low = static_cast<C>(p.lower_bound);
      return launch_items(ctx, rrelu_loop<C>, (n + 3) / 4, n, in[0].dtype, in[0].data,
                          device_random(ctx), ctx.training, low,
                          static_cast<C>(p.upper_bound) - low, out[0].data, out[1].data);
    }
  }
}

template <class C>
void run_backward(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  switch (p.act_type) {
    case Type::kElu:
      return backward<EluSlope, C>(ctx, p, in, out);
    case Type::kSelu:
      return backward<SeluSlope, C>(ctx, p, in, out);
    case Type::kGelu:
      return backward<GeluSlope<ErfGelu>, C>(ctx, p, in, out);
    case Type::kGeluTanh:
      return backward<GeluSlope<TanhGelu>, C>(ctx, p, in, out);
    case Type::kPrelu: {
      const GammaView v = gamma_view(in[1].shape, in[2].shape);
      if (v.count == 0) return;
      return launch(ctx, prelu_backward_loop<C>, blocks_per_task(ctx, v.count), kThreads,
                    in[1].dtype, in[0].data, in[1].data, in[2].data, v.outer, v.count, v.inner,
                    out[0].data, out[1].data);
    }
    default:
      return backward<LeakySlope, C>(ctx, p, in, out);
  }
}

void leaky_relu(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  if (in[0].dtype == DType::kFloat64)
    run_forward<double>(ctx, p, in, out);
  else
    run_forward<float>(ctx, p, in, out);
}
void leaky_relu_backward(KernelContext& ctx, const LeakyReLUParams& p, Inputs in, Outputs out) {
  if (in[0].dtype == DType::kFloat64)
    run_backward<double>(ctx, p, in, out);
  else
    run_backward<float>(ctx, p, in, out);
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&leaky_relu>("LeakyReLU");
  ops.cuda_kernel<&leaky_relu_backward>("_leaky_relu_backward");
});

}  // namespace mxlite::cuda
