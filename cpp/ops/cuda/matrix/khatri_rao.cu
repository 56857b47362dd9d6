// Column-wise Kronecker product of matrices.
#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

// Each matrix with at least two rows doubles the result's size, so more matrices cannot fit into
// memory.
constexpr size_t kMostMatrices = 128;

struct Matrices {
  const void* data[kMostMatrices];
  int64_t rows[kMostMatrices];
  int64_t columns;
  int count;
  DType dtype;
};

template <class C>
__global__ void khatri_rao_kernel(int64_t n, const __grid_constant__ Matrices m, void* out) {
  for (int64_t at = global_index(); at < n; at += grid_stride()) {
    const int64_t column = at % m.columns;
    int64_t rest = at / m.columns;
    C product = C(1);
    for (int i = m.count; i-- > 0;) {
      product *= load_as<C>(m.data[i], m.dtype, rest % m.rows[i] * m.columns + column);
      rest /= m.rows[i];
    }
    store_as<C>(out, m.dtype, at, product);
  }
}

void khatri_rao(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  MX_CHECK(in.size() <= kMostMatrices, "khatri_rao: the number of matrices must be at most ",
           kMostMatrices, " on a GPU, got ", in.size());
  Matrices m{{}, {}, out[0].shape[1], static_cast<int>(in.size()), out[0].dtype};
  for (size_t i = 0; i < in.size(); ++i) {
    m.data[i] = in[i].data;
    m.rows[i] = in[i].shape[0];
  }
  dispatch_sum(m.dtype, [&]<class C>(C) {
    launch_items(ctx, khatri_rao_kernel<C>, out[0].size(), out[0].size(), m, out[0].data);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::khatri_rao>("khatri_rao");
});

}  // namespace mxlite::cuda
