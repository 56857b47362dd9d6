// Tests which JSON from other processes and files is read, and that any other text is a value
// error.
#include <gtest/gtest.h>

#include "cpp/base/error.h"
#include "cpp/base/json.h"
#include "tests/cpp/errors.h"

namespace mxlite {
namespace {

std::string error_of(const std::string& text) {
  return mxlite::error_of([&] { parse_json(text, "test"); }, ErrorKind::kValue);
}

TEST(JsonText, ReadsWhatPythonWrites) {
  const Json json = parse_json(
      R"({"lr": 1e-3, "n": -2, "b": true, "none": null, "l": [1, 2.5], "t": "a\"\u00e9\ud83d\ude00"})",
      "test");
  EXPECT_EQ(json.at("lr").get<double>(), 1e-3);
  EXPECT_EQ(json.at("n").get<double>(), -2);
  EXPECT_TRUE(json.at("b").get<bool>());
  EXPECT_TRUE(json.at("none").is_null());
  EXPECT_EQ(json.at("l").size(), 2u);
  EXPECT_EQ(json.at("t").get<std::string>(), "a\"\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(JsonText, TheLastOfEqualNamesCounts) {
  EXPECT_EQ(parse_json(R"({"lr": 1, "lr": 2})", "test").at("lr").get<double>(), 2);
}

TEST(JsonText, RefusesOtherTexts) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\\x\"", "\"\\ud800\"", "{\"a\": 1,}",
        "__import__('os')", "NaN", "Infinity", "1e999", "\"\xff\""})
    EXPECT_EQ(error_of(text).rfind("test: the text must be valid JSON: ", 0), 0u)
        << text << ": " << error_of(text);
}

TEST(JsonText, NestingIsBounded) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(error_of(nested(33)), "");
  EXPECT_EQ(error_of(nested(34)), "test: JSON must be nested at most 32 levels deep");
  EXPECT_EQ(error_of(std::string(100000, '[')), "test: JSON must be nested at most 32 levels deep");
}

TEST(JsonText, ADeeperBoundCanBeGiven) {
  const std::string text = std::string(50, '[') + std::string(50, ']');
  EXPECT_EQ(parse_json(text, "test", 80).size(), 1u);
  EXPECT_NE(error_of(text), "");
}

TEST(JsonText, QuotesTexts) {
  for (const std::string text : {"", "plain \xc3\xa9", "a\"b\\c", "line\nbreak\t\x01"})
    EXPECT_EQ(parse_json(json_text(text), "test").get<std::string>(), text);
  EXPECT_EQ(json_text("a\"\n"), R"("a\"\n")");
}

}  // namespace
}  // namespace mxlite
