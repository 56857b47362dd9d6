#include "cpp/kvstore/comm/reduce.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mxlite {
namespace {

constexpr int64_t kBlock = 512;  // elements per block, so that partial results stay in the L1 cache

template <class T>
struct Sum {
  static T combine(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a || b;
    else
      return static_cast<T>(a + b);
  }
};
template <class T>
struct Product {
  static T combine(T a, T b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else
      return static_cast<T>(a * b);
  }
};
// Propagates NaN from both operands.
template <class T>
struct Min {
  static T combine(T a, T b) { return b < a || b != b ? b : a; }
};
template <class T>
struct Max {
  static T combine(T a, T b) { return b > a || b != b ? b : a; }
};

template <class T, template <class> class Op>
[[gnu::always_inline]] inline void combine_block(const void* const* inputs, size_t count,
                                                 int64_t first, int64_t n, ComputeType<T>* total) {
  using Compute = ComputeType<T>;
  const T* a = static_cast<const T*>(inputs[0]) + first;
  if (count == 1) {
    for (int64_t i = 0; i < n; ++i) total[i] = static_cast<Compute>(a[i]);
    return;
  }
  const T* b = static_cast<const T*>(inputs[1]) + first;
  for (int64_t i = 0; i < n; ++i)
    total[i] = Op<Compute>::combine(static_cast<Compute>(a[i]), static_cast<Compute>(b[i]));
  for (size_t k = 2; k < count; ++k) {
    const T* c = static_cast<const T*>(inputs[k]) + first;
    for (int64_t i = 0; i < n; ++i)
      total[i] = Op<Compute>::combine(total[i], static_cast<Compute>(c[i]));
  }
}

// Reads large arrays from several pages in turn with software prefetching. Hardware prefetchers
// stop at page ends, and shared memory has small pages if the kernel grants no huge pages
// (core/cpu/shared_memory.cc).
constexpr size_t kLine = 64, kPage = 4096, kPagesInTurn = 4, kPagesBytes = kPagesInTurn * kPage;
constexpr size_t kPrefetchBytes = 512;

// Calls `line(offset)` for each cache line of kPagesBytes. Also calls `prefetch(offset)` for a
// later line, which may be beyond the end.
template <class Prefetch, class Line>
[[gnu::always_inline]] inline void for_lines_of_pages(size_t begin, Prefetch prefetch, Line line) {
  for (size_t i = 0; i < kPage; i += kLine) {
    // After the last lines of a page, the lines of a page in the next group follow.
    const size_t ahead =
        i + kPrefetchBytes < kPage ? kPrefetchBytes : kPrefetchBytes + kPagesBytes - kPage;
    for (size_t p = 0; p < kPagesInTurn; ++p) {
      const size_t at = begin + p * kPage + i;
      prefetch(at + ahead);
      line(at);
    }
  }
}

[[gnu::always_inline]] inline void stream_line(char* to, const char* from) {
  const auto* in = reinterpret_cast<const __m256i*>(from);
  auto* out = reinterpret_cast<__m256i*>(to);
  const __m256i low = _mm256_loadu_si256(in), high = _mm256_loadu_si256(in + 1);
  _mm256_stream_si256(out, low);
  _mm256_stream_si256(out + 1, high);
}

size_t bytes_to_line(const void* at) {
  return (kLine - reinterpret_cast<uintptr_t>(at) % kLine) % kLine;
}

// Writes whole cache lines with non-temporal stores. Writes the bytes before and after these lines
// with normal stores. The caller must issue a fence afterwards.
void stream_lines(void* to, const void* from, size_t bytes) {
  auto* dst = static_cast<char*>(to);
  const auto* src = static_cast<const char*>(from);
  size_t done = std::min(bytes, bytes_to_line(dst));
  std::memcpy(dst, src, done);
  for (; done + kPagesBytes <= bytes; done += kPagesBytes)
    for_lines_of_pages(
        done, [&](size_t at) { _mm_prefetch(src + at, _MM_HINT_T0); },
        [&](size_t at) { stream_line(dst + at, src + at); });
  for (; done + kLine <= bytes; done += kLine) stream_line(dst + done, src + done);
  std::memcpy(dst + done, src + done, bytes - done);
}

// Reduces all complete groups of pages and returns the number of elements in them. The outputs must
// be aligned to cache lines.
template <class T, template <class> class Op>
int64_t stream_pages(std::span<const void* const> inputs, std::span<void* const> outputs,
                     int64_t count) {
  constexpr auto kElements = static_cast<int64_t>(kLine / sizeof(T));
  alignas(64) ComputeType<T> total[kElements];
  alignas(64) T rounded[kElements];
  const size_t bytes = static_cast<size_t>(count) * sizeof(T) / kPagesBytes * kPagesBytes;
  for (size_t done = 0; done < bytes; done += kPagesBytes)
    for_lines_of_pages(
        done,
        [&](size_t at) {
          for (const void* input : inputs)
            _mm_prefetch(static_cast<const char*>(input) + at, _MM_HINT_T0);
        },
        [&](size_t at) {
          combine_block<T, Op>(inputs.data(), inputs.size(), static_cast<int64_t>(at / sizeof(T)),
                               kElements, total);
          for (int64_t i = 0; i < kElements; ++i) rounded[i] = static_cast<T>(total[i]);
          for (void* output : outputs)
            stream_line(static_cast<char*>(output) + at, reinterpret_cast<const char*>(rounded));
        });
  return static_cast<int64_t>(bytes / sizeof(T));
}

template <class T, template <class> class Op>
void reduce_typed_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                         int64_t count, Stores stores) {
  alignas(64) ComputeType<T> total[kBlock];
  alignas(64) T rounded[kBlock];
  const void* values = total;
  if constexpr (!std::is_same_v<T, ComputeType<T>>) values = rounded;
  const bool at_lines = std::all_of(outputs.begin(), outputs.end(),
                                    [](const void* output) { return bytes_to_line(output) == 0; });
  int64_t first = 0;
  if (stores == Stores::kStreaming && at_lines) first = stream_pages<T, Op>(inputs, outputs, count);
  for (; first < count; first += kBlock) {
    const int64_t n = std::min(kBlock, count - first);
    combine_block<T, Op>(inputs.data(), inputs.size(), first, n, total);
    if constexpr (!std::is_same_v<T, ComputeType<T>>)
      for (int64_t i = 0; i < n; ++i) rounded[i] = static_cast<T>(total[i]);
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    for (void* output : outputs) {
      T* out = static_cast<T*>(output) + first;
      if (stores == Stores::kStreaming)
        stream_lines(out, values, bytes);
      else
        std::memcpy(out, values, bytes);
    }
  }
  if (stores == Stores::kStreaming) _mm_sfence();
}

template <class T, template <class> class Op>
void reduce_typed(std::span<const void* const> inputs, void* output, void* second, int64_t count) {
  alignas(64) ComputeType<T> total[kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t n = std::min(kBlock, count - first);
    combine_block<T, Op>(inputs.data(), inputs.size(), first, n, total);
    T* out = static_cast<T*>(output) + first;
    if constexpr (std::is_same_v<T, ComputeType<T>>) {
      std::memcpy(out, total, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(total[i]);
    }
    if (second)
      std::memcpy(static_cast<T*>(second) + first, out, static_cast<size_t>(n) * sizeof(T));
  }
}

template <template <class> class Op>
void reduce_any(std::span<const void* const> inputs, void* output, void* second, int64_t count,
                DType dtype) {
  dispatch_dtype(dtype,
                 [&](auto t) { reduce_typed<decltype(t), Op>(inputs, output, second, count); });
}

}  // namespace

const char* reduce_op_name(ReduceOp op) {
  constexpr std::array kNames = {"sum", "product", "min", "max"};
  return kNames[static_cast<size_t>(op)];
}

void reduce_buffers(std::span<const void* const> inputs, void* output, void* second, int64_t count,
                    DType dtype, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return reduce_any<Sum>(inputs, output, second, count, dtype);
    case ReduceOp::kProduct:
      return reduce_any<Product>(inputs, output, second, count, dtype);
    case ReduceOp::kMin:
      return reduce_any<Min>(inputs, output, second, count, dtype);
    case ReduceOp::kMax:
      return reduce_any<Max>(inputs, output, second, count, dtype);
  }
}

void reduce_buffers(std::span<const void* const> inputs, void* output, int64_t count, DType dtype,
                    ReduceOp op) {
  reduce_buffers(inputs, output, nullptr, count, dtype, op);
}

void reduce_to_all(std::span<const void* const> inputs, std::span<void* const> outputs,
                   int64_t count, DType dtype, ReduceOp op, Stores stores) {
  dispatch_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    switch (op) {
      case ReduceOp::kSum:
        return reduce_typed_to_all<T, Sum>(inputs, outputs, count, stores);
      case ReduceOp::kProduct:
        return reduce_typed_to_all<T, Product>(inputs, outputs, count, stores);
      case ReduceOp::kMin:
        return reduce_typed_to_all<T, Min>(inputs, outputs, count, stores);
      case ReduceOp::kMax:
        return reduce_typed_to_all<T, Max>(inputs, outputs, count, stores);
    }
  });
}

void scale_buffer(void* data, int64_t count, DType dtype, double factor) {
  if (factor == 1.0) return;
  dispatch_dtype(dtype, [&](auto t) {
    using T = decltype(t);
    T* values = static_cast<T*>(data);
    if constexpr (std::is_same_v<T, bool>) {
      for (int64_t i = 0; i < count; ++i) values[i] = values[i] && factor != 0;
    } else if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(static_cast<double>(values[i]) * factor);
    } else {
      using Compute = ComputeType<T>;
      const Compute f = static_cast<Compute>(factor);
      for (int64_t i = 0; i < count; ++i)
        values[i] = static_cast<T>(static_cast<Compute>(values[i]) * f);
    }
  });
}

void copy_streaming(void* to, const void* from, size_t bytes) {
  stream_lines(to, from, bytes);
  _mm_sfence();
}

}  // namespace mxlite
