#include "cpp/ops/cpu/pointwise/loops.h"

#include <array>

#include "cpp/ndarray/copy.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"

namespace mxlite::pointwise {
namespace {

constexpr int64_t kShortRow = 16;  // shorter rows are copied to blocks

struct Buffer {
  alignas(64) std::byte bytes[kBlock * 8];
};

std::byte* at(const TensorRef& t, int64_t element) {
  return static_cast<std::byte*>(t.data) + element * static_cast<int64_t>(dtype_size(t.dtype));
}

Strides broadcast_strides(const TensorRef& t, const Shape& shape) {
  Strides strides = Shape::filled(shape.ndim(), 0);
  const int lead = shape.ndim() - t.shape.ndim();
  for (int i = 0; i < t.shape.ndim(); ++i) strides[lead + i] = t.shape[i] == 1 ? 0 : t.strides[i];
  return strides;
}

bool same_contiguous(const TensorRef& t, const TensorRef& out, Compute c) {
  return t.contiguous && stored_as(t.dtype, c) && t.shape == out.shape;
}

// Plan for rows along the innermost dimension, where each operand is a contiguous run or a single
// value.
struct RowPlan {
  Shape shape;
  Strides a, b;
  bool possible = false;
  Form form = Form::kBoth;
};

RowPlan plan_rows(const TensorRef& a, const TensorRef& b, const TensorRef& out, Compute c) {
  RowPlan plan{out.shape, broadcast_strides(a, out.shape), broadcast_strides(b, out.shape)};
  if (!stored_as(a.dtype, c) || !stored_as(b.dtype, c) || !stored_as(out.dtype, c)) return plan;
  Strides o = contiguous_strides(out.shape);
  const std::array<Strides*, 3> lists = {&plan.a, &plan.b, &o};
  collapse_dimensions(plan.shape, lists);
  if (plan.shape.ndim() == 0 || plan.shape.back() < kShortRow) return plan;
  const int64_t sa = plan.a.back(), sb = plan.b.back();
  plan.possible = (sa == 1 || sa == 0) && (sb == 1 || sb == 0) && sa + sb > 0;
  plan.form = sa == 0 ? Form::kScalarLeft : sb == 0 ? Form::kScalarRight : Form::kBoth;
  return plan;
}

void run_rows(BinaryFn fn, const RowPlan& plan, const TensorRef& a, const TensorRef& b,
              const TensorRef& out) {
  const int outer = plan.shape.ndim() - 1;
  const int64_t row = plan.shape.back();
  // Parts begin at multiples of kBlock in their row, so that the rounding of an element does not
  // depend on the number of threads.
  const int64_t parts = (row + kBlock - 1) / kBlock, all = out.size() / row * parts;
  const auto run = [&](int64_t first, int64_t last, int) {
    while (first < last) {
      int64_t left = first / parts, offset_a = 0, offset_b = 0;
      for (int axis = outer - 1; axis >= 0; --axis) {
        const int64_t i = left % plan.shape[axis];
        left /= plan.shape[axis];
        offset_a += i * plan.a[axis];
        offset_b += i * plan.b[axis];
      }
      const int64_t column = first % parts * kBlock;
      const int64_t count = std::min(parts - first % parts, last - first);
      const int64_t n = std::min(row - column, count * kBlock);
      fn(at(a, offset_a + column * plan.a.back()), at(b, offset_b + column * plan.b.back()),
         at(out, first / parts * row + column), n, plan.form);
      first += count;
    }
  };
  if (out.size() <= kParallelElements) return run(0, all, 0);
  share_range(all, 1, 2 * std::min(row, kBlock), run);
}

}  // namespace

BlockReader::BlockReader(const TensorRef& array, const Shape& shape, Compute c)
    : data_(static_cast<const std::byte*>(array.data)),
      shape_(shape),
      strides_(broadcast_strides(array, shape)),
      width_(dtype_size(array.dtype)),
      compute_width_(static_cast<int64_t>(compute_size(c))),
      load_(load_fn(array.dtype, c)) {
  Strides o = contiguous_strides(shape);
  const std::array<Strides*, 2> lists = {&strides_, &o};
  collapse_dimensions(shape_, lists);
  single_ = shape_.ndim() == 0 || (shape_.ndim() == 1 && strides_[0] == 0);
  direct_ = !single_ && stored_as(array.dtype, c) && shape_.ndim() == 1 && strides_[0] == 1;
}

const void* BlockReader::read(int64_t first, int64_t n, void* buffer) const {
  if (direct_) return data_ + first * static_cast<int64_t>(width_);
  if (single_) {
    load_(data_, 0, 1, buffer);
    return buffer;
  }
  const int inner = shape_.ndim() - 1;
  const int64_t row = shape_[inner];
  int64_t index[Shape::kMaxNdim];
  int64_t left = first / row, offset = 0;
  for (int axis = inner - 1; axis >= 0; --axis) {
    index[axis] = left % shape_[axis];
    left /= shape_[axis];
    offset += index[axis] * strides_[axis];
  }
  int64_t column = first % row;
  std::byte* to = static_cast<std::byte*>(buffer);
  const auto width = static_cast<int64_t>(width_);
  while (n > 0) {
    const int64_t m = std::min(row - column, n);
    load_(data_ + (offset + column * strides_[inner]) * width, strides_[inner], m, to);
    n -= m;
    to += m * compute_width_;
    column = 0;
    for (int axis = inner - 1; axis >= 0; --axis) {
      offset += strides_[axis];
      if (++index[axis] < shape_[axis]) break;
      offset -= shape_[axis] * strides_[axis];
      index[axis] = 0;
    }
  }
  return buffer;
}

namespace {

// Runs a function over operands that it reads in place: run(first, n, result). If `out` is not
// stored in type c, results are converted block by block.
template <class Run>
void run_in_place(Compute c, const TensorRef& out, const Run& run) {
  const bool stored = stored_as(out.dtype, c);
  const StoreFn store = stored ? nullptr : store_fn(c, out.dtype);
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    if (stored) return run(first, last - first, at(out, first));
    Buffer result;
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      run(first, n, result.bytes);
      store(result.bytes, n, at(out, first));
    }
  });
}

}  // namespace

void run_unary(const UnaryTable& table, Compute c, const TensorRef& x, const TensorRef& y,
               const void* args) {
  const int64_t total = y.size();
  if (total == 0) return;
  const UnaryFn fn = table.fn[static_cast<int>(c)];
  if (same_contiguous(x, y, c))
    return run_in_place(
        c, y, [&](int64_t first, int64_t n, std::byte* to) { fn(at(x, first), to, n, args); });
  const BlockReader reader(x, y.shape, c);
  const StoreFn store = store_fn(c, y.dtype);
  parallel_ranges(total, [&](int64_t first, int64_t last) {
    Buffer in, out;
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      const void* values = reader.read(first, n, in.bytes);
      if (reader.single()) {
        fn(values, out.bytes, 1, args);
        for (int64_t i = 0; i < n; ++i) store(out.bytes, 1, at(y, first + i));
      } else {
        fn(values, out.bytes, n, args);
        store(out.bytes, n, at(y, first));
      }
    }
  });
}

namespace {

void run_blocks(BinaryFn fn, Compute c, const BlockReader& a, const BlockReader& b,
                const TensorRef& out) {
  const bool stored = stored_as(out.dtype, c);
  const StoreFn store = store_fn(c, out.dtype);
  const bool one = a.single() && b.single();
  const Form form = one          ? Form::kBoth
                    : a.single() ? Form::kScalarLeft
                    : b.single() ? Form::kScalarRight
                                 : Form::kBoth;
  parallel_ranges(out.size(), [&](int64_t first, int64_t last) {
    Buffer buffer_a, buffer_b, result;
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      const void* left = a.read(first, n, buffer_a.bytes);
      const void* right = b.read(first, n, buffer_b.bytes);
      if (one) {
        fn(left, right, result.bytes, 1, form);
        for (int64_t i = 0; i < n; ++i) store(result.bytes, 1, at(out, first + i));
      } else if (stored) {
        fn(left, right, at(out, first), n, form);
      } else {
        fn(left, right, result.bytes, n, form);
        store(result.bytes, n, at(out, first));
      }
    }
  });
}

}  // namespace

void run_binary(const BinaryTable& table, Compute c, const TensorRef& a, const TensorRef& b,
                const TensorRef& out) {
  const int64_t total = out.size();
  if (total == 0) return;
  const BinaryFn fn = table.fn[static_cast<int>(c)];
  if (same_contiguous(a, out, c) && same_contiguous(b, out, c))
    return run_in_place(c, out, [&](int64_t first, int64_t n, std::byte* to) {
      fn(at(a, first), at(b, first), to, n, Form::kBoth);
    });
  const RowPlan plan = plan_rows(a, b, out, c);
  if (plan.possible) {
    run_rows(fn, plan, a, b, out);
    return;
  }
  run_blocks(fn, c, BlockReader(a, out.shape, c), BlockReader(b, out.shape, c), out);
}

void run_scalar(const BinaryTable& table, Compute c, const TensorRef& x, Number scalar,
                DType scalar_dtype, bool scalar_left, const TensorRef& out) {
  const int64_t total = out.size();
  if (total == 0) return;
  const BinaryFn fn = table.fn[static_cast<int>(c)];
  alignas(8) std::byte value[8];
  load_scalar(scalar, scalar_dtype, c, value);
  const Form form = scalar_left ? Form::kScalarLeft : Form::kScalarRight;
  if (same_contiguous(x, out, c))
    return run_in_place(c, out, [&](int64_t first, int64_t n, std::byte* to) {
      const void* run = at(x, first);
      fn(scalar_left ? value : run, scalar_left ? run : value, to, n, form);
    });
  const BlockReader reader(x, out.shape, c);
  const StoreFn store = store_fn(c, out.dtype);
  parallel_ranges(total, [&](int64_t first, int64_t last) {
    Buffer in, result;
    for (; first < last; first += kBlock) {
      const int64_t n = std::min(kBlock, last - first);
      const void* run = reader.read(first, n, in.bytes);
      const int64_t m = reader.single() ? 1 : n;
      fn(scalar_left ? value : run, scalar_left ? run : value, result.bytes, m, form);
      if (m == n)
        store(result.bytes, n, at(out, first));
      else
        for (int64_t i = 0; i < n; ++i) store(result.bytes, 1, at(out, first + i));
    }
  });
}

}  // namespace mxlite::pointwise
