// Every axis has a table with the input index of each output index, or -1 for the constant. In
// each row along the last axis, only the padding on both sides uses the table; the middle is copied
// at once.
#include "cpp/ops/tensor/pad.h"

#include <cstring>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/strided_copy.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

int64_t source_index(PadMode mode, int64_t i, int64_t length) {
  if (i >= 0 && i < length) return i;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge) return i < 0 ? 0 : length - 1;
  return i < 0 ? -i : 2 * length - 2 - i;
}

struct PadTables {
  const int64_t* of[Shape::kMaxNdim];
};

int64_t table_size(const Shape& padded) {
  int64_t n = 0;
  for (const int64_t length : padded) n += length;
  return n;
}

PadTables make_tables(const PadParams& p, const Shape& plain, const Shape& padded,
                      int64_t* memory) {
  PadTables tables;
  for (int axis = 0; axis < padded.ndim(); ++axis) {
    tables.of[axis] = memory;
    for (int64_t i = 0; i < padded[axis]; ++i)
      *memory++ = source_index(p.mode, i - p.before(axis), plain[axis]);
  }
  return tables;
}

// Returns the offset of row `row` (all axes but the last) in the plain array, or -1 if the row is
// padding.
int64_t plain_row(const PadTables& tables, const Shape& plain, const Shape& padded, int64_t row) {
  int64_t offset = 0, step = plain.back();
  for (int axis = padded.ndim() - 2; axis >= 0; --axis) {
    const int64_t i = tables.of[axis][row % padded[axis]];
    row /= padded[axis];
    if (i < 0) return -1;
    offset += i * step;
    step *= plain[axis];
  }
  return offset;
}

void pad_native(KernelContext& ctx, const PadParams& p, Inputs in, Outputs out) {
  const Shape& plain = in[0].shape;
  const Shape& padded = out[0].shape;
  if (padded.size() == 0) return;
  if (padded.ndim() == 0) return cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  auto* const memory =
      static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(table_size(padded)) * sizeof(int64_t)));
  const PadTables tables = make_tables(p, plain, padded, memory);
  const int last = padded.ndim() - 1;
  const int64_t width = padded.back(), rows = padded.size() / width;
  const int64_t before = p.before(last), middle = plain.back();
  uint64_t constant_bits = 0;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    const T value = p.constant_value.as<T>();
    std::memcpy(&constant_bits, &value, sizeof(T));
  });
  cpu::dispatch_size(dtype_size(in[0].dtype), [&]<class T>(T) {
    const T constant = static_cast<T>(constant_bits);
    const int64_t* const columns = tables.of[last];
    cpu::parallel_for(rows, width, [&](int64_t row) {
      T* const to = out[0].as<T>() + row * width;
      const int64_t offset = plain_row(tables, plain, padded, row);
      if (offset < 0) {
        std::fill_n(to, width, constant);
        return;
      }
      const T* const from = in[0].as<T>() + offset;
      const auto edge = [&](int64_t i) { to[i] = columns[i] < 0 ? constant : from[columns[i]]; };
      for (int64_t i = 0; i < before; ++i) edge(i);
      std::copy_n(from, middle, to + before);
      for (int64_t i = before + middle; i < width; ++i) edge(i);
    });
  });
}

// Rows with the same index along the leading unpadded axes write only their part of the result, so
// threads divide these indices.
void pad_backward_native(KernelContext& ctx, const PadParams& p, Inputs in, Outputs out) {
  const Shape& plain = out[0].shape;
  const Shape& padded = in[0].shape;
  const int64_t size = plain.size();
  if (size == 0) return;
  if (padded.ndim() == 0) return cpu::contiguous_copy(out[0].data, in[0].data, out[0].bytes());
  int lead = 0;
  while (lead < padded.ndim() - 1 && p.before(lead) == 0 && p.after(lead) == 0) ++lead;
  const int64_t groups = padded.product(0, lead);
  const int64_t width = padded.back(), rows_per_group = padded.size() / width / groups;
  dispatch_dtype(in[0].dtype, [&]<class T>(T) {
    using Sum = ComputeType<T>;
    const size_t table_bytes = static_cast<size_t>(table_size(padded)) * sizeof(int64_t);
    auto* const memory = static_cast<std::byte*>(
        ctx.scratch(table_bytes + static_cast<size_t>(size) * sizeof(float)));
    const PadTables tables = make_tables(p, plain, padded, reinterpret_cast<int64_t*>(memory));
    Sum* sums;
    if constexpr (std::is_same_v<T, Sum>)
      sums = out[0].as<T>();
    else
      sums = reinterpret_cast<Sum*>(memory + table_bytes);
    std::fill_n(sums, size, Sum(0));
    const int64_t* const columns = tables.of[padded.ndim() - 1];
    cpu::parallel_for(groups, rows_per_group * width, [&](int64_t group) {
      for (int64_t r = 0; r < rows_per_group; ++r) {
        const int64_t row = group * rows_per_group + r;
        const int64_t offset = plain_row(tables, plain, padded, row);
        if (offset < 0) continue;
        const T* const from = in[0].as<T>() + row * width;
        for (int64_t i = 0; i < width; ++i)
          if (columns[i] >= 0) sums[offset + columns[i]] += static_cast<Sum>(from[i]);
      }
    });
    if constexpr (!std::is_same_v<T, Sum>)
      for (int64_t i = 0; i < size; ++i) out[0].as<T>()[i] = T(sums[i]);
  });
}

}  // namespace

static const Registration pad_registration(Stage::kKernels, [](OpRegistry& ops) {
  ops.cpu_kernel<&pad_native>("Pad");
  ops.cpu_kernel<&pad_backward_native>("_pad_backward");
});

}  // namespace mxlite
