#include "cpp/ops/cuda/matrix/padded_gemm.h"

#include "cpp/ops/cuda/memory.h"
#include "cpp/ops/cuda/strided_copy.h"

namespace mxlite::cuda {
namespace {

TensorRef matrix(void* data, int64_t rows, int64_t columns, int64_t leading, DType dtype) {
  return {data, Shape{rows, columns}, Strides{leading, 1}, dtype, leading == columns};
}

}  // namespace

void padded_gemm(KernelContext& ctx, const Gemm& g, const GemmOperands& o) {
  const GemmPitches pitches = padded_pitches(g);
  if (pitches.a + pitches.b + pitches.c == 0) return gemm(ctx, g, o);
  Gemm padded = g;
  GemmOperands to = o;
  struct Matrix {
    int64_t rows, columns, given, pitch;
    size_t place = 0;
  } a{g.trans_a ? g.k : g.m, g.trans_a ? g.m : g.k, g.lda, pitches.a},
      b{g.trans_b ? g.n : g.k, g.trans_b ? g.k : g.n, g.ldb, pitches.b},
      c{g.m, g.n, g.ldc, pitches.c};
  ScratchPlan scratch;
  for (Matrix* x : {&a, &b, &c})
    x->place = scratch.add(static_cast<size_t>(x->rows * x->pitch) * dtype_size(g.dtype));
  void* const block = ctx.scratch(scratch.bytes());
  const auto copy_in = [&](const Matrix& x, const void*& data, int64_t& leading) {
    if (x.pitch == 0) return;
    void* const copy = part<void>(block, x.place);
    convert_copy(ctx, matrix(const_cast<void*>(data), x.rows, x.columns, x.given, g.dtype),
                 matrix(copy, x.rows, x.columns, x.pitch, g.dtype));
    data = copy;
    leading = x.pitch;
  };
  copy_in(a, to.a, padded.lda);
  copy_in(b, to.b, padded.ldb);
  if (c.pitch) {
    to.c = part<void>(block, c.place);
    padded.ldc = c.pitch;
  }
  gemm(ctx, padded, to);
  if (c.pitch)
    convert_copy(ctx, matrix(to.c, c.rows, c.columns, c.pitch, g.dtype),
                 matrix(o.c, c.rows, c.columns, c.given, g.dtype));
}

}  // namespace mxlite::cuda
