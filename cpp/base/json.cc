#include "cpp/base/json.h"

#include <algorithm>

#include "cpp/base/error.h"

namespace mxlite {

Json parse_json(const std::string& text, const std::string& what, int deepest) {
  const auto check_depth = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    MX_CHECK(!begins || depth <= deepest, what, ": JSON must be nested at most ", deepest,
             " levels deep");
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& e) {
    const std::string why = e.what();  // for example "[json.exception.parse_error.101] parse error
                                       // at line ..."
    const size_t prefix = why.find("] ");
    fail(ErrorKind::kValue, what, ": the text must be valid JSON: ",
         prefix == std::string::npos ? why : why.substr(prefix + 2));
  }
}

std::string json_text(const std::string& text) {
  const auto is_escaped = [](char c) {
    return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
  };
  if (std::none_of(text.begin(), text.end(), is_escaped)) return '"' + text + '"';
  return Json(text).dump();
}

}  // namespace mxlite
