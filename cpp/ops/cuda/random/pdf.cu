// Densities are computed in double, through their logarithm.
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/random/densities.h"
#include "cpp/ops/random/pdf.h"

namespace mxlite {
namespace cuda {
namespace {

using mxlite::random::PdfParams;

struct Operands {
  const void *samples, *first, *second;
  void* out;
  DType dtype, first_dtype, second_dtype, out_dtype;
  bool is_log;
};
Operands operands(const PdfParams& p, Inputs in, Outputs out) {
  return {in[0].data,  in[1].data,      in.back().data, out[0].data, in[0].dtype,
          in[1].dtype, in.back().dtype, out[0].dtype,   p.is_log};
}

// row: samples of one parameter.
template <class D>
__global__ void densities(int64_t n, int64_t row, const __grid_constant__ Operands o) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    const int64_t k = i / row;
    const double value =
        D()(load_any<double>(o.samples, o.dtype, i), load_any<double>(o.first, o.first_dtype, k),
            load_any<double>(o.second, o.second_dtype, k));
    store_any(o.out, o.out_dtype, i, o.is_log ? value : exp(value));
  }
}
template <class D>
void density(KernelContext& ctx, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n > 0) launch_items(ctx, densities<D>, n, n, n / in[1].size(), operands(p, in, out));
}

__global__ void dirichlet_densities(int64_t n, int64_t row, int64_t classes,
                                    const __grid_constant__ Operands o) {
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    double total = 0, value = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const double alpha = load_any<double>(o.first, o.first_dtype, i / row * classes + c);
      total += alpha;
      value += mxlite::random::dirichlet_term(load_any<double>(o.samples, o.dtype, i * classes + c),
                                              alpha);
    }
    value += mxlite::random::log_gamma(total);
    store_any(o.out, o.out_dtype, i, o.is_log ? value : exp(value));
  }
}
void dirichlet(KernelContext& ctx, const PdfParams& p, Inputs in, Outputs out) {
  const int64_t n = out[0].size();
  if (n == 0) return;
  const int64_t alphas = in[1].shape.product(0, in[1].shape.ndim() - 1);
  launch_items(ctx, dirichlet_densities, n, n, n / alphas, in[1].shape.back(),
               operands(p, in, out));
}

}  // namespace
}  // namespace cuda

void register_random_pdf_cuda(OpRegistry& ops) {
  constexpr DeviceType kCUDA = DeviceType::kCUDA;
  mxlite::random::for_each_density([&]<class D>(D) {
    ops.kernel<&cuda::density<D>>(std::string("_random_pdf_") + D::name, kCUDA);
  });
  ops.kernel<&cuda::dirichlet>("_random_pdf_dirichlet", kCUDA);
}

}  // namespace mxlite
