// Draws a single number from a distribution. A Stream provides any number of random words for one
// element, independent of other elements and equal on all devices.
#pragma once
#include <cmath>
#include <type_traits>

#include "cpp/core/random.h"
#include "cpp/ops/pointwise/math.h"
#include "cpp/ops/random/distributions.h"

namespace mxlite::random {

class Stream {
 public:
  MX_HOST_DEVICE Stream(RandomState state, int64_t element)
      : seed_(state.seed), counter_(state.offset + static_cast<uint64_t>(element)) {}

  MX_HOST_DEVICE uint32_t word() {
    if (used_ == 4) {
      words_ = philox(seed_, counter_, stream_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  MX_HOST_DEVICE double uniform() {  // in [0, 1)
    const uint32_t high = word();
    return to_uniform_double(high, word());
  }
  // Returns a uniform number in (0, 1); its logarithm is finite.
  MX_HOST_DEVICE double positive() { return 1.0 - std::fmax(uniform(), 0x1p-53); }
  MX_HOST_DEVICE double normal() {
    const double radius = std::sqrt(-2.0 * std::log(positive()));
    return radius * std::cos(6.283185307179586 * uniform());
  }
  // Returns an integer in [0, n), the high half of a product. The bias is below n / 2^64.
  MX_HOST_DEVICE uint64_t below(uint64_t n) {
    const uint64_t high = word();
    const auto bits = static_cast<unsigned __int128>(high << 32 | word());
    return static_cast<uint64_t>(bits * n >> 64);
  }

 private:
  uint64_t seed_, counter_, stream_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

// Rows are shuffled by sorting them by these random 63-bit keys. Rows with equal keys keep their
// order, which changes the probability of an order by at most rows^2 / 2^64.
MX_HOST_DEVICE inline int64_t shuffle_key(RandomState state, int64_t row) {
  Stream stream(state, row);
  const uint64_t high = stream.word();
  return static_cast<int64_t>((high << 32 | stream.word()) >> 1);
}

// Method of Marsaglia and Tsang (2000). For alpha < 1, multiplies by a power of a uniform number.
MX_HOST_DEVICE inline double draw_gamma(Stream& s, double alpha, double beta) {
  const double boost = alpha < 1 ? std::pow(s.positive(), 1.0 / alpha) : 1.0;
  const double d = (alpha < 1 ? alpha + 1.0 : alpha) - 1.0 / 3;
  // For huge d, the variation is less than the rounding error; for infinity or NaN the loop would
  // never end.
  if (!(d < 1e30)) return d * beta;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = s.normal();
    const double root = 1.0 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(s.positive()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v * beta * boost;
  }
}

// For lam < 12 counts exponential steps, else Hoermann's transformed rejection (PTRS, 1993).
MX_HOST_DEVICE inline double draw_poisson(Stream& s, double lam) {
  if (lam == 0 || !(lam < 1e15)) return lam;  // the variation is less than the rounding error
  if (lam < 12) {
    const double limit = std::exp(-lam);
    double product = s.positive(), count = 0;
    for (; product > limit; ++count) product *= s.positive();
    return count;
  }
  const double root = std::sqrt(lam), log_lam = std::log(lam);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = s.uniform() - 0.5, v = s.positive();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + lam + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <= k * log_lam - lam - std::lgamma(k + 1))
      return k;
  }
}

// The numbers of a floating dtype strictly between two bounds, which may be in any order. If there
// is no such number, the interval contains only `low`.
class OpenInterval {
 public:
  MX_HOST_DEVICE OpenInterval(double low, double high, DType dtype) {
    first_ = -below(-(low < high ? low : high), dtype);
    last_ = below(low < high ? high : low, dtype);
    if (first_ > last_) first_ = last_ = low;
  }
  // Clamps a value so that it is still in the interval after rounding to the dtype. Keeps NaN.
  template <class C>
  MX_HOST_DEVICE C clamp(C value) const {
    const C first = static_cast<C>(first_), last = static_cast<C>(last_);
    const C more = value < first ? first : value;
    return more > last ? last : more;
  }

 private:
  struct Format {
    int digits, least_exponent;
    double largest;
  };
  MX_HOST_DEVICE static Format format_of(DType dtype) {
    switch (dtype) {
      case DType::kFloat16:
        return {10, -14, 65504};
      case DType::kBFloat16:
        return {7, -126, 0x1.FEp127};
      case DType::kFloat32:
        return {23, -126, 0x1.FFFFFEp127};
      default:
        return {52, -1022, 0x1.FFFFFFFFFFFFFp1023};
    }
  }
  // Returns the largest number of the dtype below x, or the lowest finite number if there is none.
  MX_HOST_DEVICE static double below(double x, DType dtype) {
    const Format f = format_of(dtype);
    if (!(x <= f.largest)) return f.largest;
    if (x <= -f.largest) return -f.largest;
    const double near = std::nextafter(x, -f.largest);
    const int exponent = std::ilogb(near);
    const double step =
        std::ldexp(1.0, (exponent < f.least_exponent ? f.least_exponent : exponent) - f.digits);
    return std::floor(near / step) * step;
  }

  double first_, last_;
};

MX_HOST_DEVICE inline double draw(Uniform, Stream& s, double low, double high) {
  return low + (high - low) * std::fmax(s.uniform(), 0x1p-54);
}
MX_HOST_DEVICE inline double draw(Normal, Stream& s, double mean, double deviation) {
  return mean + deviation * s.normal();
}
MX_HOST_DEVICE inline double draw(Gamma, Stream& s, double alpha, double beta) {
  return draw_gamma(s, alpha, beta);
}
MX_HOST_DEVICE inline double draw(Exponential, Stream& s, double lam, double) {
  return -std::log(s.positive()) / lam;
}
MX_HOST_DEVICE inline double draw(Poisson, Stream& s, double lam, double) {
  return draw_poisson(s, lam);
}
MX_HOST_DEVICE inline double draw(NegativeBinomial, Stream& s, double k, double p) {
  return p == 1 ? 0.0 : draw_poisson(s, draw_gamma(s, k, (1 - p) / p));
}
MX_HOST_DEVICE inline double draw(GeneralizedNegativeBinomial, Stream& s, double mu, double alpha) {
  if (mu == 0) return 0;
  return draw_poisson(s, alpha == 0 ? mu : draw_gamma(s, 1 / alpha, alpha * mu));
}

// Returns one draw for an array of the dtype; NaN for invalid parameters.
template <class D>
MX_HOST_DEVICE double draw_number(D d, Stream& s, double a, double b, DType dtype) {
  if (!drawable(d, a, b)) return NAN;
  const double value = draw(d, s, a, b);
  if constexpr (std::is_same_v<D, Uniform>) return OpenInterval(a, b, dtype).clamp(value);
  return value;
}

struct SinCos {
  float sin, cos;
};
// Returns sine and cosine of 2 pi u, u in [0, 1), by a Taylor series on an eighth of a turn.
MX_HD SinCos sincos_turn(float u) {
  const float quarter = std::nearbyint(u * 4.0f);
  const float x = (u - quarter * 0.25f) * 6.28318530718f, z = x * x;
  const float s = x * (1.0f + z * (-1.0f / 6 + z * (1.0f / 120 - z * (1.0f / 5040))));
  const float c = 1.0f + z * (-0.5f + z * (1.0f / 24 + z * (-1.0f / 720 + z * (1.0f / 40320))));
  const int q = static_cast<int>(quarter) & 3;
  const float sine = (q & 1) ? c : s, cosine = (q & 1) ? s : c;
  return {(q & 2) ? -sine : sine, ((q + 1) & 2) ? -cosine : cosine};
}

// Uniform and normal numbers are generated in blocks. kFillBlock elements use kFillBlock / 4
// counters for float (one word per element) or kFillBlock / 2 for double (two words per element).
// Word, or pair of words, w of counter j is used for element w * counters + j.
constexpr int64_t kFillBlock = 512;

// Returns `steps`: uniform numbers are multiples of 1 / steps that the dtype can represent, with 0
// replaced by half a step.
inline double uniform_steps(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p11;
    case DType::kBFloat16:
      return 0x1p8;
    case DType::kFloat32:
      return 0x1p24;
    default:
      return 0x1p53;
  }
}

}  // namespace mxlite::random
