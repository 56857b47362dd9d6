#include "cpp/ops/nn/kl_sparse_reg.h"

#include <cstring>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/nn/channel_blocks.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void kl_sparse_reg_native(KernelContext& ctx, const KlSparseRegParams& p, Inputs in, Outputs out) {
  const ChannelBlocks b = channel_blocks(in[0].shape, 1);
  if (in[0].size() > 0) std::memcpy(out[0].data, in[0].data, in[0].bytes());
  dispatch_floating("IdentityAttachKLSparseReg", in[0].dtype, [&]<class T>(T) {
    using Acc = ComputeType<T>;
    const T* x = in[0].as<T>();
    T *running = in[1].as<T>(), *used = out[1].as<T>();
    const int64_t count = b.outer * b.inner;
    cpu::parallel_for(b.channels, count, [&](int64_t c) {
      if (ctx.training && count > 0) {
        double sum = 0;
        for (int64_t o = 0; o < b.outer; ++o) {
          const T* row = x + (o * b.channels + c) * b.inner;
          for (int64_t i = 0; i < b.inner; ++i)
            sum += static_cast<double>(static_cast<Acc>(row[i]));
        }
        const double m = static_cast<double>(p.momentum);
        const double old = static_cast<double>(static_cast<Acc>(running[c]));
        const double mean = sum / static_cast<double>(count);
        running[c] = static_cast<T>(static_cast<Acc>(old * m + mean * (1 - m)));
      }
      used[c] = running[c];
    });
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<kl_sparse_reg_native>("IdentityAttachKLSparseReg");
});

}  // namespace mxlite
