#include "cpp/ops/attr.h"

#include <charconv>
#include <cmath>

namespace mxlite {
namespace {

template <class Range, class F>
std::string tuple_text(const Range& values, F&& text) {
  std::string s = "(";
  size_t n = 0;
  for (const auto& v : values) s += (n++ ? ", " : "") + text(v);
  return s + (n == 1 ? ",)" : ")");
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

AttrValue parse_scalar(std::string_view s) {
  s = trim(s);
  if (s == "None") return std::monostate{};
  if (s == "True" || s == "true") return true;
  if (s == "False" || s == "false") return false;
  std::string_view digits = s;
  // Python 2 wrote long integers as 3L
  if (!digits.empty() && digits.back() == 'L') digits.remove_suffix(1);
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  int64_t i = 0;
  const char* end = digits.data() + digits.size();
  if (auto r = std::from_chars(digits.data(), end, i); r.ec == std::errc() && r.ptr == end)
    return i;
  uint64_t u = 0;
  if (auto r = std::from_chars(digits.data(), end, u); r.ec == std::errc() && r.ptr == end)
    return u;
  double d = 0;
  if (auto r = std::from_chars(digits.data(), end, d); r.ec == std::errc() && r.ptr == end)
    return d;
  return std::string(s);
}

AttrValue parse_tuple(std::string_view body) {
  std::vector<AttrValue> items;
  while (!trim(body).empty()) {
    const size_t comma = std::min(body.find(','), body.size());
    items.push_back(parse_scalar(body.substr(0, comma)));
    body.remove_prefix(std::min(comma + 1, body.size()));
  }
  bool none = false, real = false;
  for (const AttrValue& v : items) {
    none |= std::holds_alternative<std::monostate>(v);
    real |= std::holds_alternative<double>(v);
    if (std::holds_alternative<std::string>(v)) throw AttrMismatch{"a tuple of numbers"};
  }
  if (real) {
    std::vector<double> out;
    for (const AttrValue& v : items) out.push_back(attr_to_double(v));
    return out;
  }
  if (none) {
    OptionalInts out;
    for (const AttrValue& v : items)
      out.push_back(std::holds_alternative<std::monostate>(v) ? std::optional<int64_t>()
                                                              : attr_to_int(v));
    return out;
  }
  Shape out;
  for (const AttrValue& v : items) out.push_back(attr_to_int(v));
  return out;
}

// If `v` is a string, parses it as a number or tuple into `storage`; otherwise returns `v`.
const AttrValue& resolve(const AttrValue& v, AttrValue& storage) {
  if (const auto* text = std::get_if<std::string>(&v)) return storage = parse_attr_text(*text);
  return v;
}

}  // namespace

std::string attr_text(const AttrValue& value) {
  struct Text {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(bool v) const { return v ? "True" : "False"; }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return number_text(v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Shape& v) const { return str(v); }
    std::string operator()(const std::vector<double>& v) const {
      return tuple_text(v, number_text);
    }
    std::string operator()(const OptionalInts& v) const {
      return tuple_text(v, [](const auto& i) { return i ? std::to_string(*i) : "None"; });
    }
    std::string operator()(DType v) const { return dtype_name(v); }
  };
  return std::visit(Text{}, value);
}

AttrValue parse_attr_text(std::string_view text) {
  const std::string_view s = trim(text);
  if (s.size() >= 2 &&
      ((s.front() == '(' && s.back() == ')') || (s.front() == '[' && s.back() == ']')))
    return parse_tuple(s.substr(1, s.size() - 2));
  return parse_scalar(s);
}

int64_t attr_to_int(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* i = std::get_if<int64_t>(&v)) return *i;
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  if (const auto* d = std::get_if<double>(&v); d && *d == std::floor(*d) && std::abs(*d) < 0x1p63)
    return static_cast<int64_t>(*d);
  if (std::holds_alternative<uint64_t>(v)) throw AttrMismatch{"an int of 64 bits", true};
  throw AttrMismatch{"an int"};
}

double attr_to_double(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* d = std::get_if<double>(&v)) return *d;
  if (const auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<uint64_t>(&v)) return static_cast<double>(*u);
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  throw AttrMismatch{"a number"};
}

bool attr_to_bool(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  if (const auto* i = std::get_if<int64_t>(&v)) return *i != 0;
  if (std::holds_alternative<uint64_t>(v)) return true;
  throw AttrMismatch{"a bool"};
}

Shape attr_to_ints(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* s = std::get_if<Shape>(&v)) return *s;
  if (std::holds_alternative<int64_t>(v) || std::holds_alternative<uint64_t>(v))
    return Shape{attr_to_int(v)};
  throw AttrMismatch{"an int or a tuple of ints"};
}

OptionalInts attr_to_optional_ints(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* o = std::get_if<OptionalInts>(&v)) return *o;
  if (const auto* s = std::get_if<Shape>(&v)) return OptionalInts(s->begin(), s->end());
  if (std::holds_alternative<std::monostate>(v)) return OptionalInts{std::nullopt};
  if (std::holds_alternative<int64_t>(v) || std::holds_alternative<uint64_t>(v))
    return OptionalInts{attr_to_int(v)};
  throw AttrMismatch{"an int, None or a tuple of these"};
}

std::vector<double> attr_to_doubles(const AttrValue& value) {
  AttrValue storage;
  const AttrValue& v = resolve(value, storage);
  if (const auto* d = std::get_if<std::vector<double>>(&v)) return *d;
  if (const auto* s = std::get_if<Shape>(&v)) return std::vector<double>(s->begin(), s->end());
  if (std::holds_alternative<int64_t>(v) || std::holds_alternative<uint64_t>(v) ||
      std::holds_alternative<double>(v))
    return {attr_to_double(v)};
  throw AttrMismatch{"a number or a tuple of numbers"};
}

DType attr_to_dtype(const AttrValue& value) {
  if (const auto* d = std::get_if<DType>(&value)) return *d;
  if (const auto* text = std::get_if<std::string>(&value))
    if (auto d = dtype_from_name(*text)) return *d;
  throw AttrMismatch{"a dtype"};
}

void check_attr_range(const AttrValue& value, const NumberRange& range) {
  const auto check = [&](double number) {
    if (!range.holds(number)) throw AttrMismatch{range_text(range), true};
  };
  struct Numbers {
    const decltype(check)& each;
    void operator()(int64_t v) const { each(static_cast<double>(v)); }
    void operator()(uint64_t v) const { each(static_cast<double>(v)); }
    void operator()(double v) const { each(v); }
    void operator()(const Shape& v) const {
      for (const int64_t i : v) each(static_cast<double>(i));
    }
    void operator()(const std::vector<double>& v) const {
      for (const double d : v) each(d);
    }
    void operator()(const OptionalInts& v) const {
      for (const auto& i : v)
        if (i) each(static_cast<double>(*i));
    }
    void operator()(std::monostate) const {}
    void operator()(bool) const {}
    void operator()(const std::string&) const {}
    void operator()(DType) const {}
  };
  std::visit(Numbers{check}, value);
}

std::string attr_to_string(const AttrValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  throw AttrMismatch{"a str"};
}

}  // namespace mxlite
