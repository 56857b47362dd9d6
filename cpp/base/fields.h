// Parameters of operators and options of readers, declared once: a struct's fields() lists its
// members with name, documentation and bounds, and everything that Python, files and documents know
// of them is read from there.
#pragma once
#include <array>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace mxlite {

// Upper bound of sizes, counts, strides and paddings: sums and products of two stay below 2^63.
inline constexpr double kMaxSize = 2147483647;
// Bound of real numbers that kernels multiply by sizes or positions: float32 products stay finite.
inline constexpr double kMaxReal = 1e30;

// Bounds of a number or of every element of a tuple of numbers.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false, high_excluded = false;
  bool is_bounded() const;
  bool holds(double number) const;  // false for NaN
};
// "at least 1", "from 0 to below 1"; empty where nothing is bounded.
std::string range_text(const NumberRange& range);
// The number as 1.x writes it: a value that was a float32 has a float32's digits.
std::string number_text(double number);

// Names of an enum's values. Specialise with
// static constexpr std::array<std::pair<const char*, E>, N> names.
template <class E>
struct EnumNames;

template <class P, class T>
struct Field {
  const char* name;
  T P::*member;
  const char* doc;
  bool required;
  NumberRange range = {};

  // Bounds, checked for every call before shapes are inferred.
  constexpr Field at_least(double low) const {
    return with({low, range.high, false, range.high_excluded});
  }
  constexpr Field above(double low) const {
    return with({low, range.high, true, range.high_excluded});
  }
  constexpr Field at_most(double high) const {
    return with({range.low, high, range.low_excluded, false});
  }
  constexpr Field below(double high) const {
    return with({range.low, high, range.low_excluded, true});
  }
  constexpr Field between(double low, double high) const { return at_least(low).at_most(high); }

 private:
  constexpr Field with(NumberRange bounds) const { return {name, member, doc, required, bounds}; }
};
template <class P, class T>
constexpr Field<P, T> field(const char* name, T P::*member, const char* doc) {
  return {name, member, doc, false};
}
template <class P, class T>
constexpr Field<P, T> required_field(const char* name, T P::*member, const char* doc) {
  return {name, member, doc, true};
}

// Stands for the parameters of operators that have none.
struct NoParams {
  static constexpr auto fields() { return std::tuple<>(); }
};

template <class P, class F>
void for_each_field(F&& fn) {
  std::apply([&](const auto&... f) { (fn(f), ...); }, P::fields());
}

}  // namespace mxlite
