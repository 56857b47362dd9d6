// A number given for a parameter: integers stay exact, also those that no double holds.
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
      : real_(static_cast<double>(value)), whole_(value), exact_(true) {}
  constexpr Number(int value) : Number(int64_t{value}) {}  // NOLINT

  // The nearest double.
  constexpr operator double() const { return real_; }  // NOLINT: most kernels compute in floats
  // The number without its fraction; what no int64 holds becomes the nearest limit, NaN 0.
  int64_t whole() const {
    if (exact_) return whole_;
    if (real_ >= 0x1p63) return std::numeric_limits<int64_t>::max();
    if (real_ <= -0x1p63) return std::numeric_limits<int64_t>::min();
    return std::isnan(real_) ? 0 : static_cast<int64_t>(real_);
  }
  // The number as a dtype holds it: integers wrap.
  template <class T>
  T as() const {
    if constexpr (std::is_same_v<T, bool>) {
      return real_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      if (std::is_same_v<T, uint64_t> && real_ >= 0x1p63 && real_ < 0x1p64)
        return static_cast<T>(static_cast<uint64_t>(real_));
      return static_cast<T>(whole());
    } else {
      return static_cast<T>(static_cast<ComputeType<T>>(real_));
    }
  }
  // The nearest number that the dtype holds.
  Number within(DType dtype) const {
    if (is_floating(dtype)) return *this;
    return dispatch_dtype(dtype, [&]<class T>(T) -> Number {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        constexpr double lowest = static_cast<double>(std::numeric_limits<T>::lowest());
        if (real_ < lowest) return static_cast<int64_t>(std::numeric_limits<T>::lowest());
        if (sizeof(T) < 8 && real_ > static_cast<double>(std::numeric_limits<T>::max()))
          return static_cast<int64_t>(std::numeric_limits<T>::max());
      }
      return *this;
    });
  }
  bool is_integer() const {
    return exact_ || (real_ == std::trunc(real_) && std::abs(real_) < 0x1p53);
  }
  // Is it an integer that a double would round?
  bool needs_integer() const {
    return exact_ && (real_ >= 0x1p63 || static_cast<int64_t>(real_) != whole_);
  }

 private:
  double real_;
  int64_t whole_ = 0;
  bool exact_ = false;
};

template <>
struct AttrTraits<Number> {
  static std::string python_type() { return AttrTraits<double>::python_type(); }
  static Number from(const AttrValue& v) {
    if (const auto* whole = std::get_if<int64_t>(&v)) return *whole;
    if (const auto* text = std::get_if<std::string>(&v))
      if (const AttrValue read = parse_attr_text(*text); std::holds_alternative<int64_t>(read))
        return std::get<int64_t>(read);
    return attr_to_double(v);
  }
  static AttrValue to(Number v) {
    if (v.needs_integer()) return v.whole();
    return static_cast<double>(v);
  }
};

}  // namespace mxlite
