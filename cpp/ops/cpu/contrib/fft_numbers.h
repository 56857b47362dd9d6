// Complex numbers, lengths and butterflies of the Fourier transform, for every device.
#pragma once
#include <cmath>
#include <cstdint>

#include "cpp/base/host_device.h"

namespace mxlite::fft {

template <class R>
struct Complex {
  R re, im;
  MX_HOST_DEVICE Complex operator+(Complex o) const { return {re + o.re, im + o.im}; }
  MX_HOST_DEVICE Complex operator-(Complex o) const { return {re - o.re, im - o.im}; }
  MX_HOST_DEVICE Complex operator*(Complex o) const {
    return {re * o.re - im * o.im, re * o.im + im * o.re};
  }
  MX_HOST_DEVICE Complex operator*(R s) const { return {re * s, im * s}; }
  MX_HOST_DEVICE Complex conj() const { return {re, -im}; }
  MX_HOST_DEVICE Complex times_i() const { return {-im, re}; }
};

// Returns exp(-2 pi i k / n) for 0 <= k < n.
template <class R>
MX_HOST_DEVICE Complex<R> root_of_unity(int64_t k, int64_t n) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  const double angle = -kTwoPi * static_cast<double>(k) / static_cast<double>(n);
  return {static_cast<R>(std::cos(angle)), static_cast<R>(std::sin(angle))};
}

// Returns the k-th of the factors by which Bluestein's method multiplies n values.
template <class R>
MX_HOST_DEVICE Complex<R> chirp(int64_t k, int64_t n) {
  return root_of_unity<R>(k * k % (2 * n), 2 * n);
}

MX_HOST_DEVICE constexpr bool power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

// Returns the transform length for n values: n if it is a power of two, otherwise the length of
// Bluestein's convolution.
MX_HOST_DEVICE constexpr int64_t inner_length(int64_t n) {
  if (power_of_two(n)) return n;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

// A radix-4 butterfly in Stockham's order. Inputs are `quarter` elements apart, outputs `stride`.
template <class R>
MX_HOST_DEVICE inline void butterfly(const Complex<R>* in, int64_t quarter, Complex<R>* out,
                                     int64_t stride, Complex<R> w1, Complex<R> w2, Complex<R> w3) {
  const Complex<R> a = in[0], b = in[quarter], c = in[2 * quarter], d = in[3 * quarter];
  const Complex<R> even = a + c, odd = a - c, sum = b + d, turned = (b - d).times_i();
  out[0] = even + sum;
  out[stride] = w1 * (odd - turned);
  out[2 * stride] = w2 * (even - sum);
  out[3 * stride] = w3 * (odd + turned);
}

}  // namespace mxlite::fft
