#include "cpp/ops/cuda/compute_type.h"
#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/nn/kl_sparse_reg.h"
#include "cpp/ops/registration.h"

namespace mxlite::cuda {
namespace {

struct RunningMean {
  ChannelBlocks blocks;
  double momentum;
  bool update;
  DType dtype;
  const void* data;
  void *running, *used;
};

// One block per channel.
template <class C>
__global__ void __launch_bounds__(kThreads)
    running_mean_kernel(const __grid_constant__ RunningMean m) {
  const int64_t count = m.blocks.outer * m.blocks.inner;
  for (int64_t c = blockIdx.x; c < m.blocks.channels; c += gridDim.x) {
    double sum = 0;
    for (int64_t i = threadIdx.x; m.update && i < count; i += blockDim.x) {
      const int64_t row = i / m.blocks.inner * m.blocks.channels + c;
      sum += static_cast<double>(
          load_as<C>(m.data, m.dtype, row * m.blocks.inner + i % m.blocks.inner));
    }
    sum = block_sum(sum);
    if (threadIdx.x != 0) continue;
    C value = load_as<C>(m.running, m.dtype, c);
    if (m.update) {
      const double mean = sum / static_cast<double>(count);
      value = static_cast<C>(static_cast<double>(value) * m.momentum + mean * (1 - m.momentum));
      store_as<C>(m.running, m.dtype, c, value);
    }
    store_as<C>(m.used, m.dtype, c, value);
  }
}

void kl_sparse_reg(KernelContext& ctx, const KlSparseRegParams& p, Inputs in, Outputs out) {
  const ChannelBlocks blocks = channel_blocks(in[0].shape, 1);
  copy_bytes(ctx, out[0].data, in[0].data, out[0].bytes());
  if (blocks.channels == 0) return;
  const RunningMean m{blocks,
                      static_cast<double>(p.momentum),
                      ctx.training && in[0].size() > 0,
                      in[0].dtype,
                      in[0].data,
                      in[1].data,
                      out[1].data};
  dispatch_float_compute(m.dtype, [&]<class C>(C) {
    launch(ctx, running_mean_kernel<C>, blocks_per_task(ctx, blocks.channels), kThreads, m);
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cuda_kernel<&cuda::kl_sparse_reg>("IdentityAttachKLSparseReg");
});

}  // namespace mxlite::cuda
