// Values of parameters (base/fields.h) in Python and JSON. Conversion and spelling are defined once
// for each C++ type (AttrTraits), not for each operator.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/base/fields.h"
#include "cpp/core/dtype.h"
#include "cpp/core/shape.h"

namespace mxlite {

using OptionalInts = std::vector<std::optional<int64_t>>;  // type of slice's begin and end: (None,
                                                           // 2)
// The alternative uint64_t is only used for integers above the largest int64_t.
using AttrValue = std::variant<std::monostate, bool, int64_t, double, std::string, Shape,
                               std::vector<double>, OptionalInts, DType, uint64_t>;

// Thrown if a conversion fails; the caller adds the names of operator and parameter.
struct AttrMismatch {
  std::string expected;
  bool wrong_value = false;  // true if the type is right but the value is out of range
};

// Throws AttrMismatch if a number in `value` lies outside the range or is NaN. None passes.
void check_attr_range(const AttrValue& value, const NumberRange& range);

std::string attr_text(const AttrValue& value);  // uses MXNet 1.x's spelling: (3, 3), True, float32
// Parses a value from a JSON file, or a string that the user passed for a number or tuple.
AttrValue parse_attr_text(std::string_view text);

int64_t attr_to_int(const AttrValue& value);
double attr_to_double(const AttrValue& value);
bool attr_to_bool(const AttrValue& value);
Shape attr_to_ints(const AttrValue& value);  // converts one int to a tuple of length 1
OptionalInts attr_to_optional_ints(const AttrValue& value);
std::vector<double> attr_to_doubles(const AttrValue& value);
DType attr_to_dtype(const AttrValue& value);
std::string attr_to_string(const AttrValue& value);

template <class T>
struct AttrTraits;

template <>
struct AttrTraits<bool> {
  static std::string python_type() { return "bool"; }
  static bool from(const AttrValue& v) { return attr_to_bool(v); }
  static AttrValue to(bool v) { return v; }
};
template <std::integral T>
struct AttrTraits<T> {
  static std::string python_type() { return "int"; }
  static T from(const AttrValue& v) {
    const int64_t value = attr_to_int(v);
    if (!std::in_range<T>(value))
      throw AttrMismatch{"an int of " + std::to_string(8 * sizeof(T)) + " bits", true};
    return static_cast<T>(value);
  }
  static AttrValue to(T v) { return static_cast<int64_t>(v); }
};
template <std::floating_point T>
struct AttrTraits<T> {
  static std::string python_type() { return "float"; }
  static T from(const AttrValue& v) { return static_cast<T>(attr_to_double(v)); }
  static AttrValue to(T v) { return static_cast<double>(v); }
};
template <>
struct AttrTraits<std::string> {
  static std::string python_type() { return "str"; }
  static std::string from(const AttrValue& v) { return attr_to_string(v); }
  static AttrValue to(const std::string& v) { return v; }
};
template <>
struct AttrTraits<Shape> {
  static std::string python_type() { return "int | Sequence[int]"; }
  static Shape from(const AttrValue& v) { return attr_to_ints(v); }
  static AttrValue to(const Shape& v) { return v; }
};
template <>
struct AttrTraits<OptionalInts> {
  static std::string python_type() { return "int | Sequence[int | None] | None"; }
  static OptionalInts from(const AttrValue& v) { return attr_to_optional_ints(v); }
  static AttrValue to(const OptionalInts& v) { return v; }
};
template <>
struct AttrTraits<std::vector<double>> {
  static std::string python_type() { return "float | Sequence[float]"; }
  static std::vector<double> from(const AttrValue& v) { return attr_to_doubles(v); }
  static AttrValue to(const std::vector<double>& v) { return v; }
};
template <>
struct AttrTraits<DType> {
  static std::string python_type() { return "DTypeLike"; }
  static DType from(const AttrValue& v) { return attr_to_dtype(v); }
  static AttrValue to(DType v) { return v; }
};
template <class T>
struct AttrTraits<std::optional<T>> {
  static std::string python_type() {
    const std::string inner = AttrTraits<T>::python_type();
    return inner.ends_with("None") ? inner : inner + " | None";
  }
  static std::optional<T> from(const AttrValue& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(&v); text && *text == "None")
      return std::nullopt;
    return AttrTraits<T>::from(v);
  }
  static AttrValue to(const std::optional<T>& v) {
    return v ? AttrTraits<T>::to(*v) : AttrValue(std::monostate{});
  }
};
template <class E>
requires std::is_enum_v<E>
struct AttrTraits<E> {
  static std::string python_type() {
    std::string s = "Literal[";
    for (const auto& [name, value] : EnumNames<E>::names)
      s += (s.back() == '[' ? "'" : ", '") + std::string(name) + "'";
    return s + "]";
  }
  static E from(const AttrValue& v) {
    if (const auto* text = std::get_if<std::string>(&v))
      for (const auto& [name, value] : EnumNames<E>::names)
        if (*text == name) return value;
    throw AttrMismatch{"one of " + python_type().substr(7)};
  }
  static AttrValue to(E v) {
    for (const auto& [name, value] : EnumNames<E>::names)
      if (value == v) return std::string(name);
    return std::monostate{};
  }
};

// The functions of AttrTraits<T>, for a member of type T that is given by its address.
struct AttrType {
  std::string (*python_type)();
  AttrValue (*get)(const void* member);
  void (*set)(void* member, const AttrValue& value);
};
template <class T>
inline constexpr AttrType kAttrType = {
    &AttrTraits<T>::python_type,
    [](const void* member) { return AttrTraits<T>::to(*static_cast<const T*>(member)); },
    [](void* member, const AttrValue& value) {
      *static_cast<T*>(member) = AttrTraits<T>::from(value);
    }};

// Describes a field (base/fields.h) of any parameter struct, so that code that reads fields is
// compiled once instead of for each struct.
struct ParamField {
  const char* name;
  const char* doc;
  bool required;
  NumberRange range;
  const AttrType* type;
  size_t offset;  // bytes from the start of the struct to the member

  AttrValue get(const void* params) const {
    return type->get(static_cast<const std::byte*>(params) + offset);
  }
  void set(void* params, const AttrValue& value) const {
    type->set(static_cast<std::byte*>(params) + offset, value);
  }
};

template <class P>
std::vector<ParamField> param_fields() {
  [[maybe_unused]] const P params{};
  return std::apply(
      [&](const auto&... f) {
        [[maybe_unused]] const auto offset = [&](const auto& member) {
          return static_cast<size_t>(reinterpret_cast<const std::byte*>(&member) -
                                     reinterpret_cast<const std::byte*>(&params));
        };
        return std::vector<ParamField>{
            {f.name, f.doc, f.required, f.range,
             &kAttrType<std::remove_cvref_t<decltype(params.*(f.member))>>,
             offset(params.*(f.member))}...};
      },
      P::fields());
}

}  // namespace mxlite
