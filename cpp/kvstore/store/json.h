// Reads JSON (RFC 8259), of bounded depth; for what workers tell servers about their optimizer.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mxlite::store {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::map<std::string, Json>;

  Json() = default;  // null
  template <class T>
  explicit Json(T value) : value_(std::move(value)) {}
  // Value error for text that is not JSON; `what` names it ("set_optimizer").
  static Json parse(const std::string& text, const std::string& what);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const double* number() const { return std::get_if<double>(&value_); }
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }

 private:
  std::variant<std::monostate, bool, double, std::string, Array, Object> value_;
};

// A text with quotation marks.
std::string json_text(const std::string& text);

}  // namespace mxlite::store
