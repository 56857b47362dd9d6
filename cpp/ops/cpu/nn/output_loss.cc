#include "cpp/ops/nn/output_loss.h"

#include <cmath>
#include <limits>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

template <class P>
void copy_native(KernelContext&, const P&, Inputs in, Outputs out) {
  if (in[0].data != out[0].data) std::copy_n(in[0].as<char>(), in[0].bytes(), out[0].as<char>());
}

void logistic_native(KernelContext&, const RegressionOutputParams&, Inputs in, Outputs out) {
  dispatch_floating("LogisticRegressionOutput", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(in[0].size(), 4, [&](int64_t i) {
      const Acc x = static_cast<Acc>(in[0].as<T>()[i]);
      out[0].as<T>()[i] = static_cast<T>(1 / (1 + std::exp(-x)));
    });
  });
}

// The score of the true class should be above margin, the scores of other classes below -margin.
void svm_output_backward_native(KernelContext&, const SVMOutputParams& p, Inputs in, Outputs out) {
  const int64_t batch = in[0].shape[0];
  const int64_t classes = in[0].shape.product(1, in[0].shape.ndim());
  dispatch_floating("SVMOutput", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const Acc margin = static_cast<Acc>(p.margin);
    const Acc scale = static_cast<Acc>(p.regularization_coefficient);
    cpu::parallel_for(batch, classes, [&](int64_t n) {
      const int64_t wanted = static_cast<int64_t>(static_cast<Acc>(in[1].as<T>()[n]));
      for (int64_t k = 0; k < classes; ++k) {
        const Acc x = static_cast<Acc>(in[0].as<T>()[n * classes + k]);
        const Acc sign = k == wanted ? Acc(-1) : Acc(1);
        const Acc miss = margin + sign * x;
        const Acc loss_slope = miss > 0 ? (p.use_linear ? Acc(1) : 2 * miss) : Acc(0);
        out[0].as<T>()[n * classes + k] = static_cast<T>(sign * loss_slope * scale);
      }
    });
  });
}

void make_loss_backward_native(KernelContext&, const MakeLossParams& p, Inputs in, Outputs out) {
  dispatch_floating("MakeLoss", in[0].dtype, [&]<class T>(T) {
    double count = 1;
    if (p.normalization == LossNormalization::kBatch) {
      count = static_cast<double>(in[0].shape.ndim() > 0 ? in[0].shape[0] : 1);
    } else if (p.normalization == LossNormalization::kValid) {
      int64_t valid = 0;
      for (int64_t i = 0; i < in[0].size(); ++i)
        valid += static_cast<float>(in[0].as<T>()[i]) > p.valid_thresh;
      count = static_cast<double>(valid);
    }
    const double value = p.grad_scale / std::max(count, 1.0);
    std::fill_n(out[0].as<T>(), out[0].size(), static_cast<T>(static_cast<ComputeType<T>>(value)));
  });
}

struct LogSum {
  double top, log_sum;
};
template <class T>
LogSum log_sum_exp(const T* x, int64_t n) {
  using Acc = ComputeType<T>;
  Acc top = -std::numeric_limits<Acc>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t k = 0; k < n; ++k) top = std::max(top, static_cast<Acc>(x[k]));
  const double sum = cpu::sum_of<Acc>(
      n, [=](int64_t k) { return pointwise::exp_of_negative(static_cast<Acc>(x[k]) - top); });
  return {static_cast<double>(top), std::log(sum)};
}

int64_t class_index(const TensorRef& label, int64_t n, int64_t classes) {
  const double v = dispatch_dtype(label.dtype, [&]<class T>(T) {
    return static_cast<double>(static_cast<ComputeType<T>>(label.as<T>()[n]));
  });
  return v > 0 ? static_cast<int64_t>(std::min(v, static_cast<double>(classes - 1))) : 0;
}

void softmax_cross_entropy_native(KernelContext&, const NoParams&, Inputs in, Outputs out) {
  const int64_t batch = in[0].shape[0], classes = in[0].shape[1];
  dispatch_floating("softmax_cross_entropy", in[0].dtype, [&]<class T>(T) {
    double loss = 0;
    for (int64_t n = 0; n < batch; ++n) {
      const T* x = in[0].as<T>() + n * classes;
      const LogSum s = log_sum_exp(x, classes);
      loss -= static_cast<double>(x[class_index(in[1], n, classes)]) - s.top - s.log_sum;
    }
    out[0].as<T>()[0] = static_cast<T>(static_cast<ComputeType<T>>(loss));
  });
}

void softmax_cross_entropy_backward_native(KernelContext&, const NoParams&, Inputs in,
                                           Outputs out) {
  const int64_t batch = in[1].shape[0], classes = in[1].shape[1];
  dispatch_floating("softmax_cross_entropy", in[1].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    cpu::parallel_for(batch, classes * 4, [&](int64_t n) {
      const Acc grad = static_cast<Acc>(in[0].as<T>()[0]);
      const int64_t count = classes;
      const T* const x = in[1].as<T>() + n * count;
      T* const to = out[0].as<T>() + n * count;
      const LogSum s = log_sum_exp(x, count);
      const Acc top = static_cast<Acc>(s.top), scale = static_cast<Acc>(std::exp(-s.log_sum));
      const auto share = [=](int64_t k) {
        return pointwise::exp_of_negative(static_cast<Acc>(x[k]) - top) * scale;
      };
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) to[k] = static_cast<T>(grad * share(k));
      const int64_t wanted = class_index(in[2], n, count);
      to[wanted] = static_cast<T>(grad * (share(wanted) - 1));
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<copy_native<RegressionOutputParams>>("LinearRegressionOutput");
  ops.cpu_kernel<logistic_native>("LogisticRegressionOutput");
  ops.cpu_kernel<copy_native<RegressionOutputParams>>("MAERegressionOutput");
  ops.cpu_kernel<copy_native<SVMOutputParams>>("SVMOutput");
  ops.cpu_kernel<svm_output_backward_native>("_svm_output_backward");
  ops.cpu_kernel<copy_native<MakeLossParams>>("MakeLoss");
  ops.cpu_kernel<make_loss_backward_native>("_make_loss_backward");
  ops.cpu_kernel<softmax_cross_entropy_native>("softmax_cross_entropy");
  ops.cpu_kernel<softmax_cross_entropy_backward_native>("_softmax_cross_entropy_backward");
});

}  // namespace mxlite
