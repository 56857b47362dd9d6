// The gradient of weights by Winograd's minimal filtering, in which every step of forward is
// transposed: data and output gradient are transformed tile by tile, 36 products are accumulated
// over the tiles, and finally the sums are converted to 3 x 3 or 5 x 5 weights.
#include <algorithm>
#include <cstddef>

#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/winograd/winograd_kernels.h"

namespace mxlite::cpu {
namespace {

struct Layout {
  int64_t tiles;                 // tiles per block
  int64_t data_slab, grad_slab;  // in floats
  size_t data_at, grad_at, sums_at, bias_at, bytes;
};

Layout layout_for(const WinogradProblem& p) {
  const int64_t per_tile = kPoints * (p.channels + p.filters) * static_cast<int64_t>(sizeof(float));
  const auto& size = winograd_kernels().weight_grad;
  Layout l{};
  l.tiles =
      std::min(std::clamp(size.bytes / per_tile, size.least_tiles, size.most_tiles), p.tiles());
  l.data_slab = l.tiles * p.channels + kSkew;
  l.grad_slab = l.tiles * p.filters + kSkew;
  const auto room = [&](int64_t floats) {
    const size_t at = l.bytes;
    l.bytes += aligned(static_cast<size_t>(floats) * sizeof(float));
    return at;
  };
  l.data_at = room(kPoints * l.data_slab);
  l.grad_at = room(kPoints * l.grad_slab);
  l.sums_at = room(kPoints * p.channels * p.filters);
  l.bias_at = room(p.threads * p.filters);
  return l;
}

}  // namespace

size_t winograd_weight_grad_scratch_bytes(const WinogradProblem& p) { return layout_for(p).bytes; }

void winograd_weight_grad(const WinogradProblem& p, const WinogradGradArgs& args, void* scratch) {
  const FlushSubnormals flush;
  const Layout l = layout_for(p);
  const auto part = [&](size_t at) {
    return reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + at);
  };
  float *const data = part(l.data_at), *const grad = part(l.grad_at), *const sums = part(l.sums_at);
  const WinogradKernels& kernels = winograd_kernels();
  const int64_t slab = p.channels * p.filters, total = p.tiles();
  const int64_t panels = (p.filters + kernels.panel - 1) / kernels.panel;
  const int64_t threads = p.threads;
  if (args.bias_grad) std::fill_n(part(l.bias_at), threads * p.filters, 0.0f);
  for (int64_t at = 0; at < total; at += l.tiles) {
    const int64_t tiles = std::min(l.tiles, total - at);
    run_shares(p.threads, [&](int64_t me) {
      float* const bias = args.bias_grad ? part(l.bias_at) + me * p.filters : nullptr;
      const IndexRange mine = share(tiles, me, threads);
      for (int64_t t = mine.first; t < mine.last; ++t) {
        kernels.transform_tile(p, args.data, at + t, t, l.data_slab, data);
        kernels.transform_output_grad(p, args.output_grad, at + t, t, l.grad_slab, grad, bias);
      }
    });
    run_shares(p.threads, [&](int64_t me) {
      const IndexRange units = share(kPoints * panels, me, threads);
      for (int64_t u = units.first; u < units.last; ++u) {
        const int64_t x = u / panels;
        kernels.accumulate_panel(p, data + x * l.data_slab, grad + x * l.grad_slab, sums + x * slab,
                                 u % panels, tiles, at == 0);
      }
    });
  }
  const int64_t across = p.channels / kFilterBlock;
  run_shares(p.threads, [&](int64_t me) {
    const IndexRange weights = share(p.filters / kFilterBlock * across, me, threads);
    for (int64_t u = weights.first; u < weights.last; ++u)
      kernels.finish_weights(p, sums, args.weight_grad, u / across * kFilterBlock,
                             u % across * kFilterBlock, (u % across + 1) * kFilterBlock);
  });
  if (args.bias_grad)
    for (int64_t k = 0; k < p.filters; ++k) {
      float sum = 0;
      for (int64_t i = 0; i < threads; ++i) sum += part(l.bias_at)[i * p.filters + k];
      args.bias_grad[k] = sum;
    }
}

}  // namespace mxlite::cpu
