// Winograd's transforms in one dimension: of data, products, weights and their gradients, between
// six interpolation points and pixels. Included once per instruction set.
#pragma once
#include "cpp/ops/cpu/nn/registers.h"

namespace mxlite::cpu {
namespace {

// Transforms data in one dimension: six pixels to values at the points 0, 1, -1, 2, -2 and
// infinity.
inline void transform_data(const Vec (&d)[6], Vec (&v)[6]) {
  const Vec a = madd(d[2], -4, d[4]), b = madd(d[1], -4, d[3]);
  const Vec c = sub(d[4], d[2]), e = sub(d[3], d[1]);
  v[0] = madd(d[0], 4, madd(d[2], -5, d[4]));
  v[1] = add(a, b);
  v[2] = sub(a, b);
  v[3] = madd(e, 2, c);
  v[4] = madd(e, -2, c);
  v[5] = madd(d[1], 4, madd(d[3], -5, d[5]));
}

inline void transform_product(const Vec (&m)[6], Vec (&y)[4]) {
  const Vec a = add(m[1], m[2]), b = sub(m[1], m[2]);
  const Vec c = add(m[3], m[4]), e = sub(m[3], m[4]);
  y[0] = add(add(m[0], a), c);
  y[1] = madd(e, 2, b);
  y[2] = madd(c, 4, a);
  y[3] = add(madd(e, 8, b), m[5]);
}

inline void transform_product(const Vec (&m)[6], Vec (&y)[2]) {
  y[0] = add(add(add(m[0], m[1]), m[2]), add(m[3], m[4]));
  y[1] = add(madd(sub(m[3], m[4]), 2, sub(m[1], m[2])), m[5]);
}

// Transposes of transform_product, which convert gradients of outputs to gradients of products.
inline void transform_gradient(const Vec (&y)[4], Vec (&m)[6]) {
  const Vec even = add(y[0], y[2]), odd = add(y[1], y[3]);
  const Vec wide_even = madd(y[2], 4, y[0]);
  const Vec wide_odd = madd(y[3], 8, mul(y[1], set(2)));
  m[0] = y[0];
  m[1] = add(even, odd);
  m[2] = sub(even, odd);
  m[3] = add(wide_even, wide_odd);
  m[4] = sub(wide_even, wide_odd);
  m[5] = y[3];
}

inline void transform_gradient(const Vec (&y)[2], Vec (&m)[6]) {
  m[0] = y[0];
  m[1] = add(y[0], y[1]);
  m[2] = sub(y[0], y[1]);
  m[3] = madd(y[1], 2, y[0]);
  m[4] = madd(y[1], -2, y[0]);
  m[5] = y[1];
}

// Evaluates the weights' polynomial at the points, divided by the products of distances between
// points.
inline void transform_weight(const Vec (&g)[3], Vec (&u)[6]) {
  const Vec outer = add(g[0], g[2]), wide = madd(g[2], 4, g[0]);
  u[0] = mul(g[0], set(1.0f / 4));
  u[1] = mul(add(outer, g[1]), set(-1.0f / 6));
  u[2] = mul(sub(outer, g[1]), set(-1.0f / 6));
  u[3] = mul(madd(g[1], 2, wide), set(1.0f / 24));
  u[4] = mul(madd(g[1], -2, wide), set(1.0f / 24));
  u[5] = g[2];
}

inline void transform_weight(const Vec (&g)[5], Vec (&u)[6]) {
  const Vec even = add(add(g[0], g[2]), g[4]), odd = add(g[1], g[3]);
  const Vec wide_even = madd(g[4], 16, madd(g[2], 4, g[0]));
  const Vec wide_odd = madd(g[3], 8, mul(g[1], set(2)));
  u[0] = mul(g[0], set(1.0f / 4));
  u[1] = mul(add(even, odd), set(-1.0f / 6));
  u[2] = mul(sub(even, odd), set(-1.0f / 6));
  u[3] = mul(add(wide_even, wide_odd), set(1.0f / 24));
  u[4] = mul(sub(wide_even, wide_odd), set(1.0f / 24));
  u[5] = g[4];
}

// Transposes of transform_weight, which convert gradients at the points to gradients of weights.
template <int kKernel>
inline void transform_weight_gradient(const Vec (&u)[6], Vec (&g)[kKernel]) {
  const Vec a = mul(add(u[1], u[2]), set(-1.0f / 6));
  const Vec b = mul(sub(u[1], u[2]), set(-1.0f / 6));
  const Vec c = mul(add(u[3], u[4]), set(1.0f / 24));
  const Vec e = mul(sub(u[3], u[4]), set(1.0f / 24));
  g[0] = madd(u[0], 1.0f / 4, add(a, c));
  g[1] = madd(e, 2, b);
  g[2] = madd(c, 4, a);
  if constexpr (kKernel == 5) {
    g[3] = madd(e, 8, b);
    g[4] = madd(c, 16, a);
  }
  g[kKernel - 1] = add(g[kKernel - 1], u[5]);
}

}  // namespace
}  // namespace mxlite::cpu
