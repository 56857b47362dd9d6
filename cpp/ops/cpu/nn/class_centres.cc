// Rows are copied to tiles of a fixed size, so that memory does not grow with the number of rows.
#include "cpp/ops/nn/class_centres.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cpp/ops/cpu/flushing.h"
#include "cpp/ops/cpu/gemm.h"
#include "cpp/ops/cpu/index_values.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/sum_of.h"
#include "cpp/ops/cpu/sparse/embedding_hash.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr int64_t kTileRows = 512;
constexpr float kEps = 1e-10F;  // as in L2Normalization

// A permutation of [0, size) whose values are computed independently: a Feistel network on the next
// power of two, which is applied again while the result is at least `size`.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key)
      : size_(size),
        high_bits_(std::max(static_cast<int>(std::bit_width(size - 1)), 8) / 2),
        low_bits_(std::max(static_cast<int>(std::bit_width(size - 1)), 8) - high_bits_),
        key_(key) {}

  uint64_t operator()(uint64_t value) const {
    do {
      uint64_t high = value >> low_bits_, low = value & mask(low_bits_);
      for (uint64_t round = 0; round < 4; ++round) {
        high ^= sparse::mixed(low + key_ + 2 * round * kGolden) & mask(high_bits_);
        low ^= sparse::mixed(high + key_ + (2 * round + 1) * kGolden) & mask(low_bits_);
      }
      value = high << low_bits_ | low;
    } while (value >= size_);
    return value;
  }

 private:
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;
  static uint64_t mask(int bits) { return (uint64_t{1} << bits) - 1; }

  uint64_t size_;
  int high_bits_, low_bits_;
  uint64_t key_;
};

uint64_t key_of(const SampleClassesParams& p, int64_t step) {
  uint64_t key = 0;
  for (const int64_t part : {p.seed, step, p.first})
    key = sparse::mixed(key ^ static_cast<uint64_t>(part));
  return key;
}

void sample_classes(KernelContext& ctx, const SampleClassesParams& p, Inputs in, Outputs out) {
  const int64_t labels = in[0].size(), n = out[0].size();
  int64_t step = 0;
  step = *cpu::index_values(in[1], &step);
  int64_t* own = nullptr;  // the labels' rows, ascending and distinct
  const int64_t* const label = cpu::index_values(ctx, in[0], labels, &own);
  int64_t own_count = 0;
  for (int64_t i = 0; i < labels; ++i) {
    MX_CHECK_KIND(label[i] >= 0 && label[i] < p.classes, ErrorKind::kIndex,
                  "_contrib_sample_classes: label[", i, "] must be from 0 to ", p.classes - 1,
                  ", got ", label[i]);
    const int64_t row = label[i] - p.first;
    if (row >= 0 && row < p.size) own[own_count++] = row;
  }
  std::sort(own, own + own_count);
  own_count = std::unique(own, own + own_count) - own;
  auto* const rows = out[0].as<int32_t>();
  if (n == p.size) {
    for (int64_t i = 0; i < n; ++i) rows[i] = static_cast<int32_t>(i);
  } else {
    int64_t count = own_count;
    std::copy(own, own + own_count, rows);
    const Permutation permute(static_cast<uint64_t>(p.size), key_of(p, step));
    for (uint64_t i = 0; count < n; ++i) {
      const auto row = static_cast<int64_t>(permute(i));
      if (!std::binary_search(own, own + own_count, row)) rows[count++] = static_cast<int32_t>(row);
    }
    std::sort(rows, rows + n);
  }
  auto* const position = out[1].as<int32_t>();
  for (int64_t i = 0; i < labels; ++i) {
    const int64_t row = label[i] - p.first;
    const bool here = row >= 0 && row < p.size;
    position[i] = here ? static_cast<int32_t>(std::lower_bound(rows, rows + n, row) - rows) : -1;
  }
}

struct Centres {
  const float* weight;
  const int32_t* rows;
  int64_t classes, count, width;

  Centres(const char* op, const TensorRef& weight, const TensorRef& rows)
      : weight(weight.as<float>()),
        rows(rows.as<int32_t>()),
        classes(weight.shape[0]),
        count(rows.size()),
        width(weight.shape[1]) {
    for (int64_t i = 0; i < count; ++i)
      MX_CHECK_KIND(this->rows[i] >= 0 && this->rows[i] < classes, ErrorKind::kIndex, op, ": rows[",
                    i, "] must be from 0 to ", classes - 1, ", got ", this->rows[i]);
  }

  int64_t tiles() const { return (count + kTileRows - 1) / kTileRows; }
  const float* row(int64_t i) const { return weight + rows[i] * width; }
  float inverse_norm(const float* w) const {
    return static_cast<float>(
        1 / std::sqrt(cpu::sum_of<float>(width, [=](int64_t k) { return w[k] * w[k]; }) + kEps));
  }
  // Writes the rows [begin, end) of the chosen classes, normalized.
  void gather(int64_t begin, int64_t end, float* tile) const {
    for (int64_t i = begin; i < end; ++i, tile += width) {
      const float* const w = row(i);
      const float scale = inverse_norm(w);
#pragma omp simd
      for (int64_t k = 0; k < width; ++k) tile[k] = w[k] * scale;
    }
  }
  // Calls fn(begin, end, tile) for all tiles. Each part of the tiles has its own memory, so that
  // sums do not depend on the thread that computes the part.
  void for_tiles(float* memory, int64_t per_thread, auto&& fn) const {
    const int64_t parts = std::min<int64_t>(cpu_threads(), tiles());
    const int64_t work = tiles() / std::max<int64_t>(1, parts) * kTileRows * width * 64;
    cpu::parallel_for(parts, work, [&](int64_t part) {
      for (int64_t t = tiles() * part / parts; t < tiles() * (part + 1) / parts; ++t)
        fn(t * kTileRows, std::min(count, (t + 1) * kTileRows), memory + part * per_thread);
    });
  }
};

float* floats(KernelContext& ctx, int64_t count) {
  return static_cast<float*>(ctx.scratch(static_cast<size_t>(count) * sizeof(float)));
}

void cosines(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Centres c("_contrib_class_cosines", in[1], in[2]);
  const int64_t n = in[0].shape[0], per_thread = kTileRows * c.width;
  float* const memory = floats(ctx, cpu_threads() * per_thread);
  c.for_tiles(memory, per_thread, [&](int64_t begin, int64_t end, float* tile) {
    c.gather(begin, end, tile);
    cpu::gemm(DType::kFloat32, false, true, n, end - begin, c.width, in[0].data, c.width, tile,
              c.width, out[0].as<float>() + begin, c.count);
  });
}

void cosines_backward(KernelContext& ctx, const NoParams&, Inputs in, Outputs out) {
  const Centres c("_contrib_class_cosines_backward", in[1], in[2]);
  const int64_t n = in[0].shape[0], size = n * c.width, per_thread = kTileRows * c.width + size;
  const int64_t threads = cpu_threads();
  float* const memory = floats(ctx, threads * per_thread);
  for (int64_t t = 0; t < threads; ++t)
    std::fill_n(memory + t * per_thread + kTileRows * c.width, size, 0.0F);
  c.for_tiles(memory, per_thread, [&](int64_t begin, int64_t end, float* tile) {
    c.gather(begin, end, tile);
    cpu::gemm(DType::kFloat32, false, false, n, c.width, end - begin, in[0].as<float>() + begin,
              c.count, tile, c.width, tile + kTileRows * c.width, c.width, 1, 1);
  });
  float* const grad = out[0].as<float>();
  std::fill_n(grad, size, 0.0F);
  for (int64_t t = 0; t < threads; ++t) {
    const float* const part = memory + t * per_thread + kTileRows * c.width;
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) grad[i] += part[i];
  }
}

// With v = w / |w|: the gradient of w is (grad_v - v * sum(v * grad_v)) / |w|.
void update(KernelContext& ctx, const CentreUpdateParams& p, Inputs in, Outputs out) {
  const Centres c("_contrib_class_centres_update", in[0], in[2]);
  if (out[0].data != in[0].data) std::copy_n(in[0].as<float>(), in[0].size(), out[0].as<float>());
  const int64_t n = in[3].shape[0], per_thread = kTileRows * c.width;
  const auto lr = static_cast<float>(p.lr), factor = static_cast<float>(p.momentum);
  const auto wd = static_cast<float>(p.wd), rescale = static_cast<float>(p.rescale_grad);
  float* const memory = floats(ctx, cpu_threads() * per_thread);
  c.for_tiles(memory, per_thread, [&](int64_t begin, int64_t end, float* tile) {
    cpu::gemm(DType::kFloat32, true, false, end - begin, c.width, n, in[4].as<float>() + begin,
              c.count, in[3].data, c.width, tile, c.width);
    for (int64_t i = begin; i < end; ++i) {
      const float *const grad = tile + (i - begin) * c.width, *const w = c.row(i);
      float* const m = in[1].as<float>() + c.rows[i] * c.width;
      float* const to = out[0].as<float>() + c.rows[i] * c.width;
      const float inverse = c.inverse_norm(w);
      const auto along = static_cast<float>(
          cpu::sum_of<float>(c.width, [=](int64_t k) { return grad[k] * w[k]; }));
      const float slope = along * inverse * inverse, scale = rescale * inverse;
#pragma omp simd
      for (int64_t k = 0; k < c.width; ++k) {
        m[k] = factor * m[k] - lr * (scale * (grad[k] - w[k] * slope) + wd * w[k]);
        to[k] = w[k] + m[k];
      }
    }
  });
}

}  // namespace

static const Registration registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<sample_classes>("_contrib_sample_classes", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<cosines>>("_contrib_class_cosines", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<cosines_backward>>("_contrib_class_cosines_backward", kWorkerOnly);
  ops.cpu_kernel<cpu::flushing<update>>("_contrib_class_centres_update", kWorkerOnly);
});

}  // namespace mxlite
