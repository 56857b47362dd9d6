// Parameters of operators and options of readers. A struct's fields() lists its members with name,
// documentation and bounds. Python, files and documents get all of this information from fields().
#pragma once
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace mxlite {

// Upper bound of sizes, counts, strides and paddings. Sums and products of two such numbers are
// below 2^63.
inline constexpr double kMaxSize = 2147483647;
// Bound of real numbers that kernels multiply by sizes or positions, so that float32 products stay
// finite.
inline constexpr double kMaxReal = 1e30;

// Bounds of a number, or of every element of a tuple of numbers.
struct NumberRange {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false, high_excluded = false;
  bool is_bounded() const;
  bool holds(double number) const;  // returns false for NaN
};
// Returns "at least 1" or "from 0 to below 1", or an empty text if there are no bounds.
std::string range_text(const NumberRange& range);
// Returns the number as MXNet 1.x writes it: a number that float32 represents gets the digits of a
// float32.
std::string number_text(double number);

template <class E>
struct EnumNames;
// Sets the names of an enum's values: MX_ENUM_NAMES(Mode, {"clip", E::kClip}, {"wrap", E::kWrap}).
#define MX_ENUM_NAMES(Enum, ...)                                        \
  template <>                                                           \
  struct EnumNames<Enum> {                                              \
    using E = Enum;                                                     \
    static constexpr std::pair<const char*, E> names[] = {__VA_ARGS__}; \
  };

template <class P, class T>
struct Field {
  const char* name;
  T P::*member;
  const char* doc;
  bool required;
  NumberRange range = {};

  // Sets bounds. Every call checks its values against them before shapes are inferred.
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

// join_fields(fields or tuples of fields...) returns one tuple with all of them.
template <class P, class T>
constexpr auto fields_tuple(const Field<P, T>& f) {
  return std::tuple(f);
}
template <class... F>
constexpr std::tuple<F...> fields_tuple(const std::tuple<F...>& f) {
  return f;
}
template <class... F>
constexpr auto join_fields(const F&... f) {
  return std::tuple_cat(fields_tuple(f)...);
}

// Defines fields() of a struct from single fields and tuples of fields, such as those of a base
// class. The arguments refer to the struct as P.
#define MX_FIELDS(Struct, ...)               \
  static constexpr auto fields() {           \
    using P [[maybe_unused]] = Struct;       \
    return mxlite::join_fields(__VA_ARGS__); \
  }
// Declares a field for P's member of the same name.
#define MX_FIELD(name, doc) mxlite::field(#name, &P::name, doc)
#define MX_REQUIRED_FIELD(name, doc) mxlite::required_field(#name, &P::name, doc)

// Parameters of operators that have no parameters.
struct NoParams {
  static constexpr auto fields() { return std::tuple<>(); }
};

template <class P, class F>
void for_each_field(F&& fn) {
  std::apply([&](const auto&... f) { (fn(f), ...); }, P::fields());
}

}  // namespace mxlite
