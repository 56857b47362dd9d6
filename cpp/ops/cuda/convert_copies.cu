// Conversions of many pairs of arrays in one launch, for example of all weights of a network.
#include <algorithm>
#include <numeric>
#include <vector>

#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {
namespace {

constexpr int kWidth = kPack<float>;
constexpr int64_t kChunk = 4 * kThreads * kWidth;  // elements that a block converts at a time
constexpr int kMostAxes = 4;

__device__ __forceinline__ int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// A pair of arrays without gaps, in float32 or a half.
struct PackedPair {
  const void* src;
  void* dst;
  int64_t n;
  DType from, to;

  int64_t total() const { return n; }
  __device__ __forceinline__ void convert(int64_t begin) const {
    const int64_t end = smaller(begin + kChunk, n), packs = begin + (end - begin) / kWidth * kWidth;
    for (int64_t i = begin + threadIdx.x * kWidth; i < packs; i += kThreads * kWidth) {
      float v[kWidth];
      for_dtype_of<float>(from, [&]<class T>(T) { load_pack<T>(src, i, v); });
      for_dtype_of<float>(to, [&]<class T>(T) { store_pack<T>(dst, i, v); });
    }
    for (int64_t i = packs + threadIdx.x; i < end; i += kThreads)
      store_as<float>(dst, to, i, load_as<float>(src, from, i));
  }
};

// A pair of arrays of few axes, in float32 or a half.
struct StridedPair {
  const void* src;
  void* dst;
  Walk<2, kMostAxes> walk;
  DType from, to;

  int64_t total() const { return walk.total(); }
  __device__ __forceinline__ void convert(int64_t begin) const {
    const int64_t end = smaller(begin + kChunk, walk.total());
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
      int64_t at[2];
      walk.offsets(i, at);
      store_as<float>(dst, to, at[0], load_as<float>(src, from, at[1]));
    }
  }
};

// The pairs of a launch and their chunks, which are numbered from the first pair to the last one.
template <class Pair>
struct PairBatch {
  static constexpr int kMostPairs = sizeof(Pair) <= 32 ? 100 : 16;
  Pair pairs[kMostPairs];
  int64_t first[kMostPairs];  // the first chunk of each pair
  int64_t chunks = 0;
  int count = 0;
};

template <class Pair>
__global__ void convert_pairs(const __grid_constant__ PairBatch<Pair> batch) {
  for (int64_t chunk = blockIdx.x; chunk < batch.chunks; chunk += gridDim.x) {
    int pair = 0;  // the last one that begins at the chunk or before
    for (int step = 64; step > 0; step /= 2)
      if (pair + step < batch.count && batch.first[pair + step] <= chunk) pair += step;
    batch.pairs[pair].convert((chunk - batch.first[pair]) * kChunk);
  }
}

// Launches the kernel for each full batch; flush() launches it for the last one.
template <class Pair>
class PairBatches {
 public:
  explicit PairBatches(KernelContext& ctx) : ctx_(ctx) {
    static_assert(sizeof(batch_) <= 4096, "a kernel's arguments");
    static_assert(PairBatch<Pair>::kMostPairs <= 128, "the search of the kernel");
  }
  void add(const Pair& pair) {
    batch_.pairs[batch_.count] = pair;
    batch_.first[batch_.count++] = batch_.chunks;
    batch_.chunks += (pair.total() + kChunk - 1) / kChunk;
    if (batch_.count == PairBatch<Pair>::kMostPairs) flush();
  }
  void flush() {
    if (batch_.count > 0)
      launch(ctx_, convert_pairs<Pair>, blocks_per_task(ctx_, batch_.chunks), kThreads, batch_);
    batch_.count = 0;
    batch_.chunks = 0;
  }

 private:
  KernelContext& ctx_;
  PairBatch<Pair> batch_;
};

// Returns a walk in the order of the destination's memory.
Walk<2> walk_of(const TensorRef& from, const TensorRef& to) {
  std::vector<int> axes(static_cast<size_t>(to.shape.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, [&](int a, int b) { return to.strides[a] > to.strides[b]; });
  Walk<2> walk;
  for (const int i : axes) walk.add(to.shape[i], {to.strides[i], from.strides[i]});
  walk.finish();
  return walk;
}

Walk<2, kMostAxes> shortened(const Walk<2>& walk) {
  Walk<2, kMostAxes> result;
  for (int i = 0; i < walk.ndim(); ++i)
    result.add(walk.size(i), {walk.stride(0, i), walk.stride(1, i)});
  result.finish();
  return result;
}

}  // namespace

void convert_copies(KernelContext& ctx, Inputs from, Outputs to) {
  const auto is_narrow = [](DType d) { return d == DType::kFloat32 || is_half(d); };
  PairBatches<PackedPair> packed(ctx);
  PairBatches<StridedPair> strided(ctx);
  for (size_t i = 0; i < to.size(); ++i) {
    const TensorRef &a = from[i], &b = to[i];
    if (b.size() == 0 || (a.data == b.data && a.dtype == b.dtype)) continue;
    const Walk<2> walk = walk_of(a, b);
    if (to.size() == 1 || !is_narrow(a.dtype) || !is_narrow(b.dtype) || walk.ndim() > kMostAxes)
      convert_copy(ctx, a, b);
    else if (walk.contiguous() && is_aligned(a.data) && is_aligned(b.data))
      packed.add({a.data, b.data, walk.total(), a.dtype, b.dtype});
    else
      strided.add({a.data, b.data, shortened(walk), a.dtype, b.dtype});
  }
  packed.flush();
  strided.flush();
}

}  // namespace mxlite::cuda
