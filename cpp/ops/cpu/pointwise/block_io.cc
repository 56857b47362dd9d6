#include "cpp/ops/cpu/pointwise/block_io.h"

#include <cmath>
#include <cstring>

#include "cpp/ops/cpu/convert_run.h"

namespace mxlite::pointwise {
namespace {

template <class T, class C>
void load(const void* src, int64_t stride, int64_t n, void* out) {
  const T* from = static_cast<const T*>(src);
  C* to = static_cast<C*>(out);
  if (stride == 1) {
    cpu::convert_run(from, to, n);
  } else if (stride == 0) {
    const C value = static_cast<C>(from[0]);
    for (int64_t i = 0; i < n; ++i) to[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<C>(from[i * stride]);
  }
}

template <class C, class T>
void store(const void* in, int64_t n, void* dst) {
  const C* from = static_cast<const C*>(in);
  T* to = static_cast<T*>(dst);
  if constexpr (std::is_same_v<C, float> &&
                (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>))
    return cpu::convert_run(from, to, n);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>)
      to[i] = from[i] != C(0);
    else if constexpr (std::is_floating_point_v<C> && std::is_integral_v<T> && sizeof(T) < 8)
      // Converts via int64, which wraps instead of having undefined behavior.
      to[i] = static_cast<T>(static_cast<int64_t>(from[i]));
    else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      to[i] = T(static_cast<float>(from[i]));
    else
      to[i] = static_cast<T>(from[i]);
  }
}

decltype(auto) dispatch_compute(Compute c, auto&& fn) {
  switch (c) {
    case Compute::kFloat:
      return fn(float{});
    case Compute::kDouble:
      return fn(double{});
    case Compute::kInt32:
      return fn(int32_t{});
    case Compute::kInt64:
      return fn(int64_t{});
    case Compute::kUInt64:
      return fn(uint64_t{});
  }
  internal_error("compute type", __FILE__, __LINE__);
}

}  // namespace

Compute compute_for_arithmetic(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
      return Compute::kFloat;
    case DType::kFloat64:
      return Compute::kDouble;
    case DType::kInt64:
    case DType::kUInt32:
      return Compute::kInt64;
    case DType::kUInt64:
      return Compute::kUInt64;
    default:
      return Compute::kInt32;
  }
}

Compute compute_for_math(DType dtype) {
  return dtype == DType::kFloat32 || is_half(dtype) ? Compute::kFloat : Compute::kDouble;
}

Compute compute_for_sum(DType dtype) {
  const Compute c = compute_for_arithmetic(dtype);
  return c == Compute::kInt32 ? Compute::kInt64 : c;
}

bool stored_as(DType dtype, Compute c) {
  switch (c) {
    case Compute::kFloat:
      return dtype == DType::kFloat32;
    case Compute::kDouble:
      return dtype == DType::kFloat64;
    case Compute::kInt32:
      return dtype == DType::kInt32;
    case Compute::kInt64:
      return dtype == DType::kInt64;
    case Compute::kUInt64:
      return dtype == DType::kUInt64;
  }
  return false;
}

LoadFn load_fn(DType from, Compute to) {
  return dispatch_dtype(from, [&](auto t) -> LoadFn {
    using T = decltype(t);
    return dispatch_compute(to, [](auto c) -> LoadFn { return &load<T, decltype(c)>; });
  });
}

StoreFn store_fn(Compute from, DType to) {
  return dispatch_dtype(to, [&](auto t) -> StoreFn {
    using T = decltype(t);
    return dispatch_compute(from, [](auto c) -> StoreFn { return &store<decltype(c), T>; });
  });
}

void load_scalar(Number value, DType dtype, Compute c, void* out) {
  if (c == Compute::kFloat) {
    float rounded = static_cast<float>(static_cast<double>(value));
    if (dtype == DType::kFloat16) rounded = float16(rounded);
    if (dtype == DType::kBFloat16) rounded = bfloat16(rounded);
    std::memcpy(out, &rounded, sizeof(rounded));
  } else if (c == Compute::kDouble) {
    const double wide = is_floating(dtype) ? static_cast<double>(value) : std::trunc(value);
    std::memcpy(out, &wide, sizeof(wide));
  } else {
    alignas(8) std::byte stored[8];
    dispatch_dtype(dtype, [&]<class T>(T) {
      const T held = value.as<T>();
      std::memcpy(stored, &held, sizeof(T));
    });
    load_fn(dtype, c)(stored, 0, 1, out);
  }
}

}  // namespace mxlite::pointwise
