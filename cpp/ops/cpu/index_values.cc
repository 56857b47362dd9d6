#include "cpp/ops/cpu/index_values.h"

#include <limits>
#include <type_traits>

#include "cpp/ops/cpu/nn/parallel.h"

namespace mxlite::cpu {
namespace {

// Returns the nearest int64, so that clipping works for indices beyond its range; NaN gives the
// lowest value.
template <class T>
int64_t to_index(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!(value > static_cast<T>(-0x1p63))) return std::numeric_limits<int64_t>::min();
    if (value >= static_cast<T>(0x1p63)) return std::numeric_limits<int64_t>::max();
  }
  return static_cast<int64_t>(value);
}

}  // namespace

const int64_t* index_values(const TensorRef& indices, int64_t* buffer) {
  if (indices.dtype == DType::kInt64) return indices.as<int64_t>();
  const int64_t count = indices.size();
  dispatch_dtype(indices.dtype, [&]<class T>(T) {
    const T* const from = indices.as<T>();
    parallel_for(count, 1, [&](int64_t i) { buffer[i] = to_index(ComputeType<T>(from[i])); });
  });
  return buffer;
}

const int64_t* index_values(KernelContext& ctx, const TensorRef& indices, int64_t extra,
                            int64_t** rest) {
  const int64_t own = indices.dtype == DType::kInt64 ? 0 : indices.size();
  int64_t* buffer = nullptr;
  if (own + extra > 0)
    buffer = static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(own + extra) * sizeof(int64_t)));
  if (rest) *rest = buffer + own;
  return index_values(indices, buffer);
}

void store_index_values(const int64_t* values, int64_t count, const TensorRef& out) {
  dispatch_dtype(out.dtype, [&]<class T>(T) {
    T* const to = out.as<T>();
    for (int64_t i = 0; i < count; ++i)
      to[i] = static_cast<T>(static_cast<ComputeType<T>>(values[i]));
  });
}

}  // namespace mxlite::cpu
