// float32 matrix times vector, as in the dense layer for a single image. The loop is memory-bound,
// so it reads several rows concurrently, and each thread takes further rows when it has finished.
#pragma once
#include <cstdint>

namespace mxlite::cpu {

// y[i] = dot(matrix[i, :], x) + (start ? start[i] : 0), followed by relu if set. `start` may be y.
struct MatrixVector {
  const float* matrix;
  int64_t rows, columns, stride;  // stride counts elements between rows
  const float* x;
  const float* start = nullptr;
  float* y;
  bool relu = false;
};
void matrix_vector(const MatrixVector& p);

}  // namespace mxlite::cpu
