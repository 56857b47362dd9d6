#include "cpp/kvstore/store/json.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "cpp/base/error.h"

namespace mxlite::store {
namespace {

constexpr int kDeepest = 32;

class Parser {
 public:
  Parser(const std::string& text, const std::string& what) : text_(text), what_(what) {}

  Json whole() {
    Json value = this->value(0);
    skip_space();
    if (at_ != text_.size()) bad("the end");
    return value;
  }

 private:
  [[noreturn]] void bad(const char* expected) const {
    fail(ErrorKind::kValue, what_, ": no JSON: ", expected, " expected at character ", at_);
  }
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(const char* word) {
    const std::string_view w = word;
    if (text_.compare(at_, w.size(), w) != 0) return false;
    at_ += w.size();
    return true;
  }

  Json value(int depth) {
    if (depth > kDeepest) bad("less depth");
    skip_space();
    if (at_ >= text_.size()) bad("a value");
    switch (text_[at_]) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return Json(string());
      case 't':
        if (take_word("true")) return Json(true);
        break;
      case 'f':
        if (take_word("false")) return Json(false);
        break;
      case 'n':
        if (take_word("null")) return {};
        break;
      default:
        return Json(number());
    }
    bad("a value");
  }

  double number() {
    // What Python's json writes for numbers that are not finite.
    if (take_word("Infinity")) return HUGE_VAL;
    if (take_word("-Infinity")) return -HUGE_VAL;
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || end == begin) bad("a number");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  void put_utf8(std::string& out, uint32_t code) {
    const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xC0 | code >> 6);
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12);
      put(0x80 | (code >> 6 & 0x3F));
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
      put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
  }

  uint32_t hex4() {
    uint32_t code = 0;
    if (at_ + 4 > text_.size()) bad("four hexadecimal digits");
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) bad("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  std::string string() {
    ++at_;
    std::string out;
    while (true) {
      if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20) bad("a character");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      if (at_ >= text_.size()) bad("a character");
      const char escape = text_[at_++];
      constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
      if (const size_t i = kNames.find(escape); i != kNames.npos) {
        out.push_back(kMeanings[i]);
        continue;
      }
      if (escape != 'u') bad("an escape");
      uint32_t code = hex4();
      if (code >= 0xD800 && code < 0xDC00) {
        if (!take_word("\\u")) bad("the second half of a character");
        const uint32_t low = hex4();
        if (low < 0xDC00 || low > 0xDFFF) bad("the second half of a character");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      put_utf8(out, code);
    }
  }

  Json array(int depth) {
    ++at_;
    Json::Array items;
    if (take(']')) return Json(std::move(items));
    do {
      items.push_back(value(depth + 1));
    } while (take(','));
    if (!take(']')) bad("] or ,");
    return Json(std::move(items));
  }

  Json object(int depth) {
    ++at_;
    Json::Object items;
    if (take('}')) return Json(std::move(items));
    do {
      skip_space();
      if (at_ >= text_.size() || text_[at_] != '"') bad("a name");
      std::string name = string();
      if (!take(':')) bad(":");
      items.insert_or_assign(std::move(name), value(depth + 1));
    } while (take(','));
    if (!take('}')) bad("} or ,");
    return Json(std::move(items));
  }

  const std::string& text_;
  const std::string& what_;
  size_t at_ = 0;
};

}  // namespace

Json Json::parse(const std::string& text, const std::string& what) {
  return Parser(text, what).whole();
}

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += str('\\', c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

}  // namespace mxlite::store
