#include "cpp/ops/cpu/nn/winograd/winograd.h"

#include <algorithm>

#include "cpp/core/subnormals.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/winograd/winograd_kernels.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

// Slabs of one block of tiles: [36][tiles][channels] and [36][tiles][filters].
struct Block {
  int64_t tiles;
  int64_t data_slab, product_slab;  // in floats
};

Block block_for(const WinogradProblem& p) {
  const WinogradKernels& k = winograd_kernels();
  const auto& size = k.forward;
  const int64_t per_tile = kPoints * (p.channels + p.filters) * static_cast<int64_t>(sizeof(float));
  int64_t tiles = std::clamp(size.bytes / per_tile, size.least_tiles, size.most_tiles);
  tiles = std::min(tiles / k.most_rows * k.most_rows, p.tiles());
  return {tiles, tiles * p.channels + kSkew, tiles * p.filters + kSkew};
}

// Returns whether there are so few tiles that the threads share one block, each computing some of
// the 36 products.
bool shared_block(const WinogradProblem& p) {
  return p.tiles() < 2 * winograd_kernels().forward.least_tiles * p.threads;
}

void transform_share(const WinogradProblem& p, const float* weight, float* out, int64_t part,
                     int64_t parts) {
  // Divides the work into units of 16 filters x 16 channels, which are small enough to balance even
  // few filters.
  const int64_t across = p.channels / kFilterBlock;
  const IndexRange r = share(p.filters / kFilterBlock * across, part, parts);
  for (int64_t u = r.first; u < r.last; ++u)
    winograd_kernels().transform_weights(p, weight, out, u / across * kFilterBlock,
                                         u % across * kFilterBlock,
                                         (u % across + 1) * kFilterBlock);
}

size_t block_bytes(const Block& b) {
  return aligned(static_cast<size_t>(kPoints * (b.data_slab + b.product_slab)) * sizeof(float));
}

}  // namespace

const WinogradKernels& winograd_kernels() {
  return cpu::has_avx512() ? avx512::kWinogradKernels : avx2::kWinogradKernels;
}

int64_t winograd_least_tiles() { return winograd_kernels().worthwhile_tiles; }

int winograd_threads(const WinogradProblem& p) {
  const double products = static_cast<double>(kPoints * p.tiles()) *
                          static_cast<double>(p.channels) * static_cast<double>(p.filters);
  return threads_for(products * kProductNanoseconds);
}

size_t winograd_weight_bytes(int64_t channels, int64_t filters) {
  return static_cast<size_t>(kPoints * channels * filters) * sizeof(float);
}

void winograd_transform(int64_t channels, int64_t filters, int kernel, const float* weight,
                        float* transformed) {
  const FlushSubnormals flush;
  const WinogradProblem p{.channels = channels, .filters = filters, .kernel = kernel};
  const int threads = threads_for(static_cast<double>(channels * filters * kPoints));
  run_shares(threads, [&](int64_t me) { transform_share(p, weight, transformed, me, threads); });
}

size_t winograd_scratch_bytes(const WinogradProblem& p, bool transformed) {
  const size_t blocks = shared_block(p) ? 1 : static_cast<size_t>(p.threads);
  return blocks * block_bytes(block_for(p)) +
         (transformed ? 0 : winograd_weight_bytes(p.channels, p.filters));
}

void winograd_convolution(const WinogradProblem& p, const WinogradArgs& args, void* scratch) {
  const FlushSubnormals flush;
  const Block block = block_for(p);
  auto* const bytes = static_cast<std::byte*>(scratch);
  auto* const own = reinterpret_cast<float*>(bytes);
  const float* const weight = args.transformed ? args.transformed : own;
  std::byte* const slabs =
      bytes + (args.transformed ? 0 : winograd_weight_bytes(p.channels, p.filters));
  const int64_t weight_slab = p.channels * p.filters, total = p.tiles();
  const WinogradKernels& kernels = winograd_kernels();
  const int64_t threads = p.threads;
  if (!args.transformed)
    run_shares(p.threads, [&](int64_t me) { transform_share(p, args.weight, own, me, threads); });
  const auto transform = [&](float* data, int64_t at, IndexRange tiles) {
    for (int64_t t = tiles.first; t < tiles.last; ++t)
      kernels.transform_tile(p, args.data, at + t, t, block.data_slab, data);
  };
  const auto multiply = [&](float* data, int64_t tiles, IndexRange points) {
    float* const product = data + kPoints * block.data_slab;
    for (int64_t x = points.first; x < points.last; ++x)
      kernels.multiply_slab(p, data + x * block.data_slab, weight + x * weight_slab,
                            product + x * block.product_slab, tiles);
  };
  const auto finish = [&](float* data, int64_t at, IndexRange tiles) {
    const float* const product = data + kPoints * block.data_slab;
    for (int64_t t = tiles.first; t < tiles.last; ++t)
      kernels.finish_tile(p, args, at + t, t, block.product_slab, product);
  };
  if (shared_block(p)) {  // all threads work on each block
    auto* const data = reinterpret_cast<float*>(slabs);
    for (int64_t at = 0; at < total; at += block.tiles) {
      const int64_t tiles = std::min(block.tiles, total - at);
      run_shares(p.threads, [&](int64_t me) { transform(data, at, share(tiles, me, threads)); });
      run_shares(p.threads,
                 [&](int64_t me) { multiply(data, tiles, share(kPoints, me, threads)); });
      run_shares(p.threads, [&](int64_t me) { finish(data, at, share(tiles, me, threads)); });
    }
    return;
  }
  run_shares(p.threads, [&](int64_t me) {
    auto* const data = reinterpret_cast<float*>(slabs + me * block_bytes(block));
    const IndexRange mine = share(total, me, threads);
    for (int64_t at = mine.first; at < mine.last; at += block.tiles) {
      const int64_t tiles = std::min(block.tiles, mine.last - at);
      transform(data, at, {0, tiles});
      multiply(data, tiles, {0, kPoints});
      finish(data, at, {0, tiles});
    }
  });
}

}  // namespace mxlite::cpu
