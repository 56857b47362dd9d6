// A numeric parameter value that keeps all int64 and uint64 integers exact, also those that a
// double cannot represent.
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include "cpp/core/dtype.h"
#include "cpp/ops/attr.h"

namespace mxlite {

class Number {
 public:
  constexpr Number(double value = 0) : real_(value) {}  // NOLINT: a double is a number
  constexpr Number(int64_t value)                       // NOLINT: and so is an integer
      : real_(static_cast<double>(value)), bits_(static_cast<uint64_t>(value)), exact_(true) {}
  constexpr Number(uint64_t value)  // NOLINT
      : real_(static_cast<double>(value)), bits_(value), exact_(true), unsigned_(value >> 63) {}
  constexpr Number(int value) : Number(int64_t{value}) {}  // NOLINT

  // Returns the nearest double.
  constexpr operator double() const { return real_; }  // NOLINT: most kernels compute in floats
  // Returns the number without its fraction, clamped to the range of int64; 0 for NaN.
  int64_t whole() const {
    if (exact_ && !unsigned_) return static_cast<int64_t>(bits_);
    if (real_ >= 0x1p63) return std::numeric_limits<int64_t>::max();
    if (real_ <= -0x1p63) return std::numeric_limits<int64_t>::min();
    return std::isnan(real_) ? 0 : static_cast<int64_t>(real_);
  }
  // Converts to a dtype's type T. For an integer T, values within 64 bits wrap around, larger
  // values (infinity, 1e30) become T's nearest limit, and NaN becomes 0.
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) {
      return real_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (exact_) return static_cast<T>(bits_);
      if (std::is_same_v<T, uint64_t> && real_ >= 0x1p63 && real_ < 0x1p64)
        return static_cast<T>(real_);
      if (real_ >= 0x1p63) return std::numeric_limits<T>::max();
      if (real_ <= -0x1p63) return std::numeric_limits<T>::lowest();
      return static_cast<T>(whole());
    } else {
      return static_cast<T>(static_cast<ComputeType<T>>(real_));
    }
  }
  // Returns the number clamped to the range of the dtype.
  Number within(DType dtype) const {
    if (is_floating(dtype)) return *this;
    return dispatch_dtype(dtype, [&]<class T>(T) -> Number {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        constexpr double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
        if (real_ < lowest) return static_cast<int64_t>(std::numeric_limits<T>::lowest());
        if constexpr (!std::is_same_v<T, uint64_t>) {
          constexpr auto highest = static_cast<int64_t>(std::numeric_limits<T>::max());
          if (unsigned_ || whole() > highest) return highest;
        }
      }
      return *this;
    });
  }
  // Returns the exact integer; requires is_integer.
  __int128 integer() const {
    return unsigned_ ? static_cast<__int128>(bits_) : static_cast<__int128>(whole());
  }
  bool is_integer() const {
    return exact_ || (real_ == std::trunc(real_) && std::abs(real_) < 0x1p53);
  }
  // Returns a double, or an integer if a double would be rounded.
  AttrValue attr() const {
    if (unsigned_) return bits_;
    if (exact_ && (real_ >= 0x1p63 || static_cast<int64_t>(real_) != whole())) return whole();
    return real_;
  }

 private:
  double real_;
  uint64_t bits_ = 0;  // the bits of an integer, in two's complement if negative
  bool exact_ = false;
  bool unsigned_ = false;  // whether bits_ is an integer above the largest int64_t
};

template <>
struct AttrTraits<Number> {
  static std::string python_type() { return AttrTraits<double>::python_type(); }
  static Number from(const AttrValue& v) {
    if (const auto* text = std::get_if<std::string>(&v)) {
      const AttrValue read = parse_attr_text(*text);
      if (!std::holds_alternative<std::string>(read)) return from(read);
    }
    if (const auto* whole = std::get_if<int64_t>(&v)) return *whole;
    if (const auto* whole = std::get_if<uint64_t>(&v)) return *whole;
    return attr_to_double(v);
  }
  static AttrValue to(Number v) { return v.attr(); }
};

}  // namespace mxlite
