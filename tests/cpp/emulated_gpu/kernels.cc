// The kernels of the CUDA backend, compiled for the CPU. What needs CUB or a library is computed by
// the CPU here. No operator gets the CPU's kernel, so that a missing kernel shows.
#include "tests/cpp/fake_gpu/kernels.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "cpp/ops/cuda/accumulate_rows.cuh"
#include "cpp/ops/cuda/channels_last.h"
#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/nn/convolution_plan.h"
#include "cpp/ops/cuda/nn/direct_convolution.h"
#include "cpp/ops/cuda/row_sums.cuh"
#include "cpp/ops/cuda/tensor/sort.cuh"
#include "cpp/ops/registration.h"
#include "tests/cpp/emulated_gpu/faults.h"
#include "tests/cpp/emulated_gpu/guarded_memory.h"
#include "tests/cpp/emulated_gpu/int8.h"

namespace mxlite {

namespace cuda {

// cuDNN has plans for int8 only, and for convolutions that add up channels: their sums are those
// that cuDNN would add up. Every other convolution runs in the loops of the fallback.
bool run_planned_convolution(KernelContext& ctx, const ConvolutionProblem& problem,
                             const ConvolutionOperands& o) {
  if (problem.dtype == DType::kInt8) return run_int8_convolution(problem, o);
  if (!problem.sums) return false;
  direct_convolution(ctx, problem, o);
  const int64_t channels = problem.output[1];
  const int64_t pixels = problem.output[0] * problem.output[2] * problem.output[3];
  dispatch_floating("Convolution", problem.dtype, [&]<class T>(T) {
    const T* const output = static_cast<const T*>(o.output);
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0, squares = 0;
      for (int64_t i = 0; i < pixels; ++i) {
        const auto x = static_cast<float>(output[i * channels + c]);
        sum += x;
        squares += x * x;
      }
      o.sums[c] = sum;
      o.sums[channels + c] = squares;
    }
  });
  return true;
}

namespace {

// Positions 0 .. count - 1 by row, equal rows in their order.
void order_positions(const int64_t* rows, int64_t count, int64_t* sorted, int64_t* position) {
  std::iota(position, position + count, int64_t{0});
  std::stable_sort(position, position + count,
                   [&](int64_t a, int64_t b) { return rows[a] < rows[b]; });
  for (int64_t i = 0; i < count; ++i) sorted[i] = rows[position[i]];
}

struct AccumulationParts {
  explicit AccumulationParts(const RowAccumulation& a) {
    const size_t bytes = static_cast<size_t>(a.count) * sizeof(int64_t);
    rows = plan.add(bytes);
    sorted = plan.add(bytes);
    position = plan.add(bytes);
    sums = plan.add(row_sum_bytes(a));
  }
  ScratchPlan plan;
  size_t rows, sorted, position, sums;
};

}  // namespace

int64_t* accumulation_rows(KernelContext& ctx, const RowAccumulation& a) {
  const AccumulationParts p(a);
  return part<int64_t>(ctx.scratch(p.plan.bytes()), p.rows);
}

void accumulate_rows(KernelContext& ctx, const RowAccumulation& a, const void* src, void* dst) {
  zero_bytes(ctx, dst, static_cast<size_t>(a.outer * a.num_rows * a.inner) * dtype_size(a.dtype));
  const AccumulationParts p(a);
  void* const block = reinterpret_cast<char*>(a.rows) - p.rows;
  auto *const sorted = part<int64_t>(block, p.sorted), *const position =
                                                           part<int64_t>(block, p.position);
  order_positions(a.rows, a.count, sorted, position);
  sum_ordered_rows(ctx, {a.count, sorted, position}, a, src, dst, part<void>(block, p.sums));
}

void sort_rows(KernelContext&, const TensorRef& data, bool ascend, const SortResults& r) {
  const SortView& v = r.v;
  if (data.size() == 0 || r.k == 0) return;
  const uint64_t one = bits_of_one(data.dtype);
  const size_t size = dtype_size(data.dtype);
  const auto* const from = static_cast<const char*>(data.data);
  if (r.mask) std::memset(r.mask, 0, data.bytes());
  dispatch_elements(data.dtype, [&]<class T>(T) {
    std::vector<int64_t> index(static_cast<size_t>(v.length));
    for (int64_t row = 0; row < v.outer * v.inner; ++row) {
      const auto key = [&](int64_t i) {
        const uint64_t k =
            order_key(convert<AccOf<T>>(data.as<T>()[element_of(v, row, i, v.length)]));
        return ascend ? k : ~k;
      };
      std::iota(index.begin(), index.end(), int64_t{0});
      std::stable_sort(index.begin(), index.end(),
                       [&](int64_t a, int64_t b) { return key(a) < key(b); });
      for (int64_t rank = 0; rank < r.k; ++rank) {
        const int64_t i = index[static_cast<size_t>(rank)];
        const size_t at = static_cast<size_t>(element_of(v, row, i, v.length)) * size;
        const int64_t to = element_of(v, row, rank, r.k);
        if (r.value)
          std::memcpy(static_cast<char*>(r.value) + static_cast<size_t>(to) * size, from + at,
                      size);
        if (r.indices) store_any<int64_t>(r.indices, r.indices_dtype, to, i);
        if (r.mask) std::memcpy(static_cast<char*>(r.mask) + at, &one, size);
      }
    }
  });
}

RowOrder order_rows(KernelContext& ctx, const int64_t* rows, int64_t count, int64_t num_rows,
                    size_t extra_bytes, void** extra) {
  const size_t aligned = (extra_bytes + 255) / 256 * 256;
  auto* const block = static_cast<char*>(
      ctx.scratch(aligned + 2 * static_cast<size_t>(count) * sizeof(int64_t) + 1));
  if (extra) *extra = block;
  auto* const row = reinterpret_cast<int64_t*>(block + aligned);
  int64_t* const position = row + count;
  std::vector<int64_t> kept(rows, rows + count);
  for (int64_t& r : kept)
    if (num_rows != kAnyRow && (r < 0 || r >= num_rows)) r = num_rows;
  order_positions(kept.data(), count, row, position);
  return {count, row, position};
}

// The buffer holds the caller's bytes, the rows, the sorted rows, and the positions.
int64_t* rows_to_order(KernelContext& ctx, int64_t count, size_t extra_bytes, void** extra) {
  ScratchPlan plan;
  plan.add(extra_bytes);
  const size_t rows = plan.add(3 * static_cast<size_t>(count) * sizeof(int64_t));
  void* const block = ctx.scratch(plan.bytes());
  if (extra) *extra = block;
  return part<int64_t>(block, rows);
}

RowOrder order_written_rows(KernelContext&, int64_t* rows, int64_t count, int64_t num_rows,
                            size_t) {
  if (std::any_of(rows, rows + count, [&](int64_t r) { return r < 0 || r >= num_rows; }))
    fail(ErrorKind::kDevice, "order_written_rows: a row is out of range");
  order_positions(rows, count, rows + count, rows + 2 * count);
  return {count, rows + count, rows + 2 * count};
}

}  // namespace cuda

namespace {
PlanChainFn own_planner = nullptr;
}

void register_own_kernels(OpRegistry& ops) {
  emulated::check_guarded_memory();
  Registration::run_all(ops);
  own_planner = find_chain_planner(DeviceType::kCUDA).plan;
}

bool borrows_kernels(const std::string&) { return false; }

LayoutBackend own_layouts() { return {cuda::same_channels_last, cuda::plan_channels_last_reorder}; }

Plan plan_own_chain(PointwiseChain chain) { return own_planner(std::move(chain)); }

void* allocate_own(size_t bytes) { return emulated::allocate_guarded(bytes); }
void free_own(void* data) noexcept { emulated::free_guarded(data); }
void run_own(const char* name, const std::function<void()>& work) {
  emulation::run_checked(name, work);
}
Stream* own_stream() { return &emulated::immediate_stream(); }

}  // namespace mxlite
