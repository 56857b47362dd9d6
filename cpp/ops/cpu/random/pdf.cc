// Densities are computed in double from their logarithms.
#include "cpp/ops/random/pdf.h"

#include <cmath>

#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/random/densities.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace random {
namespace {

using pointwise::kBlock;

// Reads elements of any floating dtype.
class Values {
 public:
  explicit Values(const TensorRef& t)
      : data_(t.as<std::byte>()),
        width_(static_cast<int64_t>(dtype_size(t.dtype))),
        load_(pointwise::load_fn(t.dtype, pointwise::Compute::kDouble)) {}
  double operator[](int64_t i) const {
    double value;
    load_(data_ + i * width_, 1, 1, &value);
    return value;
  }
  void read(int64_t first, int64_t n, double* to) const { load_(data_ + first * width_, 1, n, to); }

 private:
  const std::byte* data_;
  int64_t width_;
  pointwise::LoadFn load_;
};

template <class D>
void density(KernelContext&, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t size = out[0].size();
  if (size == 0) return;
  const int64_t row = size / in[1].size();  // number of samples per parameter element
  const Values samples(in[0]), first_param(in[1]), second_param(in.back());
  const auto store = pointwise::store_fn(pointwise::Compute::kDouble, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(out[0].dtype));
  pointwise::parallel_ranges(size, [&](int64_t first, int64_t last) {
    double block[kBlock];
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      samples.read(first, n, block);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = (first + i) / row;
        const double value = D()(block[i], first_param[k], second_param[k]);
        block[i] = p.is_log ? value : std::exp(value);
      }
      store(block, n, out[0].as<std::byte>() + first * width);
    }
  });
}

void dirichlet(KernelContext&, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t size = out[0].size(), classes = in[1].shape.back();
  if (size == 0) return;
  const int64_t alphas = in[1].shape.product(0, in[1].shape.ndim() - 1), row = size / alphas;
  const Values samples(in[0]), alpha(in[1]);
  const auto store = pointwise::store_fn(pointwise::Compute::kDouble, out[0].dtype);
  const auto width = static_cast<int64_t>(dtype_size(out[0].dtype));
  pointwise::parallel_ranges(size, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      double total = 0, value = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const double a = alpha[i / row * classes + c], x = samples[i * classes + c];
        total += a;
        value += dirichlet_term(x, a);
      }
      value += log_gamma(total);
      if (!p.is_log) value = std::exp(value);
      store(&value, 1, out[0].as<std::byte>() + i * width);
    }
  });
}

}  // namespace
}  // namespace random

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  using namespace random;  // NOLINT: this folder's own names
  for_each_density(
      [&]<class D>(D) { ops.cpu_kernel<&density<D>>(std::string("_random_pdf_") + D::name); });
  ops.cpu_kernel<&dirichlet>("_random_pdf_dirichlet");
});

}  // namespace mxlite
