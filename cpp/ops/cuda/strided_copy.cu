#include "cpp/ops/cuda/element.cuh"
#include "cpp/ops/cuda/pointwise/loops.cuh"
#include "cpp/ops/cuda/run.cuh"
#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {
namespace {

template <class Word>
__global__ void move(const __grid_constant__ Walk<2> walk, Word* dst, const Word* src) {
  const int64_t n = walk.total();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t at[2];
    walk.offsets(i, at);
    dst[at[0]] = src[at[1]];
  }
}

// Copies runs that are contiguous on both sides in wide words.
template <class Word>
void run_move(KernelContext& ctx, const Walk<2>& walk, void* dst, const void* src) {
  launch_items(ctx, move<Word>, walk.total(), walk, static_cast<Word*>(dst),
               static_cast<const Word*>(src));
}

// Sets `wide` to the walk in words of `factor` elements. Returns false if the steps do not allow
// such words.
bool widen(const Walk<2>& walk, int64_t factor, Walk<2>& wide) {
  const int last = walk.ndim() - 1;
  if (last < 0 || walk.stride(0, last) != 1 || walk.stride(1, last) != 1 ||
      walk.size(last) % factor != 0)
    return false;
  for (int i = 0; i < last; ++i) {
    if (walk.stride(0, i) % factor != 0 || walk.stride(1, i) % factor != 0) return false;
    wide.add(walk.size(i), {walk.stride(0, i) / factor, walk.stride(1, i) / factor});
  }
  wide.add(walk.size(last) / factor, {1, 1});
  wide.finish();
  return true;
}

// Transposes the last two axes via shared memory, so that both sides are accessed in order. dst is
// (batch, columns, rows), src (batch, rows, columns).
constexpr int kTile = 32, kTileLines = 8, kTileThreads = kTile * kTileLines;

template <class Word>
__global__ void __launch_bounds__(kTileThreads)
    transpose_tiles(int64_t batch, int64_t rows, int64_t columns, int64_t dst_batch,
                    int64_t src_batch, Word* dst, const Word* src) {
  __shared__ Word tile[kTile][kTile + 1];
  const int lane = threadIdx.x % kTile, line = threadIdx.x / kTile;
  const int64_t row_tiles = (rows + kTile - 1) / kTile, tiles = (columns + kTile - 1) / kTile;
  for (int64_t task = blockIdx.x; task < batch * row_tiles * tiles; task += gridDim.x) {
    const int64_t b = task / (row_tiles * tiles);
    const int64_t row = task / tiles % row_tiles * kTile, column = task % tiles * kTile;
    __syncthreads();
    for (int k = line; k < kTile; k += kTileLines)
      if (row + k < rows && column + lane < columns)
        tile[k][lane] = src[b * src_batch + (row + k) * columns + column + lane];
    __syncthreads();
    for (int k = line; k < kTile; k += kTileLines)
      if (column + k < columns && row + lane < rows)
        dst[b * dst_batch + (column + k) * rows + row + lane] = tile[lane][k];
  }
}

// Copies if the walk, in the order of dst, is a batch of plain transposes; else returns false.
template <class Word>
bool run_transpose(KernelContext& ctx, const Walk<2>& walk, void* dst, const void* src) {
  const int n = walk.ndim();
  if (n != 2 && n != 3) return false;
  const int64_t columns = walk.size(n - 2), rows = walk.size(n - 1);
  if (walk.stride(0, n - 1) != 1 || walk.stride(0, n - 2) != rows || walk.stride(1, n - 2) != 1 ||
      walk.stride(1, n - 1) != columns || rows < kTile / 2 || columns < kTile / 2)
    return false;
  const int64_t batch = n == 3 ? walk.size(0) : 1;
  const int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  launch(ctx, transpose_tiles<Word>, blocks_per_task(ctx, tiles), kTileThreads, batch, rows,
         columns, n == 3 ? walk.stride(0, 0) : 0, n == 3 ? walk.stride(1, 0) : 0,
         static_cast<Word*>(dst), static_cast<const Word*>(src));
  return true;
}

template <class C>
__global__ void convert_elements(const __grid_constant__ Walk<2> walk, const void* src,
                                 DType src_dtype, void* dst, DType dst_dtype) {
  const int64_t n = walk.total();
  for (int64_t i = global_index(); i < n; i += grid_stride()) {
    int64_t at[2];
    walk.offsets(i, at);
    store_any<C>(dst, dst_dtype, at[0], load_as<C>(src, src_dtype, at[1]));
  }
}

// Converts between float32 and 16-bit floats. Both arrays have no gaps.
__global__ void convert_packs(int64_t n, const void* src, DType src_dtype, void* dst,
                              DType dst_dtype) {
  constexpr int kWidth = kPack<float>;
  const int64_t packs = n / kWidth;
  for (int64_t i = global_index(); i < packs; i += grid_stride()) {
    float v[kWidth];
    for_dtype_of<float>(src_dtype, [&]<class T>(T) { load_pack<T>(src, i * kWidth, v); });
    for_dtype_of<float>(dst_dtype, [&]<class T>(T) { store_pack<T>(dst, i * kWidth, v); });
  }
  for (int64_t i = packs * kWidth + global_index(); i < n; i += grid_stride())
    store_as<float>(dst, dst_dtype, i, load_as<float>(src, src_dtype, i));
}

bool aligned_to(const void* a, const void* b, size_t bytes) {
  return reinterpret_cast<uintptr_t>(a) % bytes == 0 && reinterpret_cast<uintptr_t>(b) % bytes == 0;
}

}  // namespace

void strided_copy(KernelContext& ctx, size_t element_bytes, const Walk<2>& walk, void* dst,
                  const void* src) {
  if (walk.total() == 0) return;
  if (walk.contiguous())
    return copy_bytes(ctx, dst, src, static_cast<size_t>(walk.total()) * element_bytes);
  Walk<2> wide;
  if (aligned_to(dst, src, 16) && widen(walk, static_cast<int64_t>(16 / element_bytes), wide))
    return run_move<uint4>(ctx, wide, dst, src);
  dispatch_size(element_bytes, [&]<class Word>(Word) {
    if (!run_transpose<Word>(ctx, walk, dst, src)) run_move<Word>(ctx, walk, dst, src);
  });
}

void strided_copy(KernelContext& ctx, size_t element_bytes, const Shape& shape, void* dst,
                  const Strides& dst_strides, const void* src, const Strides& src_strides) {
  Walk<2> walk;
  for (int i = 0; i < shape.ndim(); ++i) walk.add(shape[i], {dst_strides[i], src_strides[i]});
  walk.finish();
  strided_copy(ctx, element_bytes, walk, dst, src);
}

void convert_copy(KernelContext& ctx, const TensorRef& from, const TensorRef& to) {
  if (from.dtype == to.dtype)
    return strided_copy(ctx, dtype_size(to.dtype), to.shape, to.data, to.strides, from.data,
                        from.strides);
  Walk<2> walk;
  for (int i = 0; i < to.shape.ndim(); ++i) walk.add(to.shape[i], {to.strides[i], from.strides[i]});
  walk.finish();
  const int64_t n = walk.total();
  const auto is_narrow = [](DType d) { return d == DType::kFloat32 || is_half(d); };
  if (walk.contiguous() && aligned_to(from.data, to.data, 16) && is_narrow(from.dtype) &&
      is_narrow(to.dtype))
    return launch_items(ctx, convert_packs, loop_items<float>(n, true), n, from.data, from.dtype,
                        to.data, to.dtype);
  dispatch_compute(pointwise::compute_for_arithmetic(from.dtype), [&]<class C>(C) {
    launch_items(ctx, convert_elements<C>, n, walk, from.data, from.dtype, to.data, to.dtype);
  });
}

}  // namespace mxlite::cuda
