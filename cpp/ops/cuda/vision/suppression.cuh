// Greedy suppression of ranked boxes, for all operators that need it: box_nms, MultiBoxDetection,
// Proposal.
//
// Blocks compare tiles of 64 by 64 boxes and write a word per row: the later boxes that the row's
// box would drop. One block per image then processes the rows, best first, and joins the words of
// kept boxes. If the matrix of words exceeds its memory, both steps run panel by panel of rows.
#pragma once
#include "cpp/ops/cuda/vision/ranking.cuh"
#include "cpp/ops/cuda/vision/suppression_plan.h"

namespace mxlite::cuda {

inline constexpr int kSweepThreads = 512;

template <class C>
struct Suppression {
  int64_t images, limit, words, rows;
  int64_t wanted;       // an image is finished when this many boxes are kept
  RankedBox<C>* boxes;  // `limit` boxes per image, best first
  int64_t* counts;      // number of boxes of each image that take part; filled by the caller
  int64_t* sizes;       // result: number of kept boxes of each image
  int64_t* starts;      // number of kept boxes before each word of `kept`
  uint64_t* kept;       // result: one bit per box
  uint64_t* dropped;    // one bit per box
  uint64_t* matrix;     // by image, word and row of the panel

  // Returns how many kept boxes come before box i, or -1 if box i is not kept.
  __device__ int64_t place(int64_t image, int64_t i) const {
    const int64_t at = image * words + i / kTileBoxes;
    const uint64_t bit = uint64_t{1} << (i % kTileBoxes);
    return kept[at] & bit ? starts[at] + __popcll(kept[at] & (bit - 1)) : -1;
  }
  // Sets the number of boxes that take part to the number of valid entries. Must be called for each
  // i < limit.
  __device__ void count_valid(const Ranked* entries, int64_t padded, int64_t image,
                              int64_t i) const {
    const Ranked* const own = entries + image * padded;
    const bool last = i + 1 == limit || own[i + 1].key == kLastKey;
    if (own[i].key != kLastKey && last) counts[image] = i + 1;
  }
};

// Parts of the call's scratch memory. Construct the object, get the block, then call place().
template <class C>
class SuppressionMemory {
 public:
  SuppressionMemory(ScratchPlan& plan, int64_t images, int64_t limit)
      : images_(images),
        limit_(limit),
        words_(suppression_words(limit)),
        rows_(rows_per_panel(images, limit)) {
    boxes_ = add(plan, limit, sizeof(RankedBox<C>));
    // Initially zero: counts, sizes, kept, dropped.
    zeros_ = add(plan, 2 + 2 * words_, sizeof(uint64_t));
    starts_ = add(plan, words_, sizeof(int64_t));
    matrix_ = add(plan, words_ * rows_, sizeof(uint64_t));
  }
  // Returns the bytes per image without the panel.
  static int64_t image_bytes(int64_t limit) {
    return limit * static_cast<int64_t>(sizeof(RankedBox<C>)) +
           (2 + 3 * suppression_words(limit)) * static_cast<int64_t>(sizeof(uint64_t));
  }
  Suppression<C> place(KernelContext& ctx, void* block) const {
    auto* const zeros = part<uint64_t>(block, zeros_);
    zero_bytes(ctx, zeros, static_cast<size_t>(images_ * (2 + 2 * words_)) * sizeof(uint64_t));
    Suppression<C> s{};
    s.images = images_;
    s.limit = s.wanted = limit_;
    s.words = words_;
    s.rows = rows_;
    s.boxes = part<RankedBox<C>>(block, boxes_);
    s.kept = zeros;
    s.dropped = zeros + images_ * words_;
    s.counts = reinterpret_cast<int64_t*>(zeros + 2 * images_ * words_);
    s.sizes = s.counts + images_;
    s.starts = part<int64_t>(block, starts_);
    s.matrix = part<uint64_t>(block, matrix_);
    return s;
  }

 private:
  size_t add(ScratchPlan& plan, int64_t per_image, size_t bytes) const {
    return plan.add(static_cast<size_t>(images_ * per_image) * bytes);
  }

  int64_t images_, limit_, words_, rows_;
  size_t boxes_ = 0, zeros_ = 0, starts_ = 0, matrix_ = 0;
};

// A task is kThreads rows of the panel and one word: the comparison with 64 later boxes. Rows that
// an earlier panel dropped are skipped; their words are never read.
template <class C, class Rule>
__global__ void __launch_bounds__(kThreads)
    overlap_tiles(int64_t tasks, int64_t groups, int64_t first_row,
                  const __grid_constant__ Suppression<C> s, Rule rule) {
  __shared__ RankedBox<C> later[kTileBoxes];
  const int64_t first_word = first_row / kTileBoxes, num_words = s.words - first_word;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t word = first_word + task % num_words, rest = task / num_words;
    const int64_t group = rest % groups, image = rest / groups;
    const int64_t count = s.counts[image], base = word * kTileBoxes;
    const int64_t group_row = first_row + group * kThreads;
    if (base >= count || base + kTileBoxes <= group_row || s.sizes[image] >= s.wanted) continue;
    const RankedBox<C>* const boxes = s.boxes + image * s.limit;
    const int64_t past = count - base < kTileBoxes ? count - base : kTileBoxes;
    __syncthreads();  // until all threads have read the previous task's boxes
    if (threadIdx.x < past) later[threadIdx.x] = boxes[base + threadIdx.x];
    __syncthreads();
    const int64_t row = group_row + threadIdx.x;
    if (row >= count || row - first_row >= s.rows || row >= base + kTileBoxes) continue;
    if (s.dropped[image * s.words + row / kTileBoxes] >> (row % kTileBoxes) & 1) continue;
    const RankedBox<C> box = boxes[row];
    uint64_t bits = 0;
    for (int64_t c = row >= base ? row + 1 - base : 0; c < past; ++c)
      if (later[c].group == box.group && rule(box, later[c])) bits |= uint64_t{1} << c;
    s.matrix[(image * s.words + word) * s.rows + row - first_row] = bits;
  }
}

// Decides which of the panel's boxes are kept, in order, 64 at a time. One thread decides about the
// 64 boxes by their words; then each warp joins the words of the kept boxes for 64 later boxes.
template <class C>
__global__ void __launch_bounds__(kSweepThreads)
    sweep_rows(int64_t first_row, const __grid_constant__ Suppression<C> s) {
  __shared__ uint64_t among[kTileBoxes];
  __shared__ uint64_t kept_of_tile;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  for (int64_t image = blockIdx.x; image < s.images; image += gridDim.x) {
    const int64_t count = s.counts[image], used = (count + kTileBoxes - 1) / kTileBoxes;
    uint64_t* const dropped = s.dropped + image * s.words;
    const auto word_of = [&](int64_t word, int64_t row) {
      return s.matrix[(image * s.words + word) * s.rows + row - first_row];
    };
    const int64_t past_row = first_row + s.rows;
    int64_t size = s.sizes[image];
    for (int64_t row = first_row; row < past_row && row < count && size < s.wanted;
         row += kTileBoxes) {
      const int64_t tile = row / kTileBoxes;
      const uint64_t before = dropped[tile];
      const int64_t in_tile = count - row < kTileBoxes ? count - row : kTileBoxes;
      const int64_t own = threadIdx.x;
      if (own < in_tile) among[own] = before >> own & 1 ? 0 : word_of(tile, row + own);
      __syncthreads();
      if (threadIdx.x == 0) {
        uint64_t drop = before, keep = 0;
        for (int64_t b = 0; b < in_tile; ++b)
          if (!(drop >> b & 1)) {
            keep |= uint64_t{1} << b;
            drop |= among[b];
          }
        s.kept[image * s.words + tile] = kept_of_tile = keep;
        s.starts[image * s.words + tile] = size;
      }
      __syncthreads();
      const uint64_t keep = kept_of_tile;
      size += __popcll(keep);
      for (int64_t word = tile + 1 + warp; keep != 0 && word < used;
           word += kSweepThreads / kWarp) {
        uint64_t drop = 0;
        for (int b = lane; b < kTileBoxes; b += kWarp)
          if (keep >> b & 1) drop |= word_of(word, row + b);
        for (int step = kWarp / 2; step > 0; step /= 2)
          drop |= __shfl_xor_sync(0xffffffffu, drop, step);
        if (lane == 0) dropped[word] |= drop;
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) s.sizes[image] = size;
  }
}

// rule(better, later) returns whether a kept box suppresses a later box of its group.
template <class C, class Rule>
void suppress(KernelContext& ctx, const Suppression<C>& s, Rule rule) {
  for (int64_t first_row = 0; first_row < s.limit; first_row += s.rows) {
    const int64_t rows = std::min(s.rows, s.limit - first_row);
    const int64_t groups = (rows + kThreads - 1) / kThreads;
    const int64_t tasks = s.images * groups * (s.words - first_row / kTileBoxes);
    launch(ctx, overlap_tiles<C, Rule>, blocks_per_task(ctx, tasks), kThreads, tasks, groups,
           first_row, s, rule);
    launch(ctx, sweep_rows<C>, blocks_per_task(ctx, s.images), kSweepThreads, first_row, s);
  }
}

}  // namespace mxlite::cuda
