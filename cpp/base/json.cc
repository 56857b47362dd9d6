#include "cpp/base/json.h"

#include "cpp/base/error.h"

namespace mxlite {
namespace {

constexpr int kDeepest = 32;

}  // namespace

Json parse_json(const std::string& text, const std::string& what) {
  const auto check_depth = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool begins =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    MX_CHECK(!begins || depth <= kDeepest, what, ": JSON nested deeper than ", kDeepest, " levels");
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& e) {
    const std::string why = e.what();  // "[json.exception.parse_error.101] parse error at line ..."
    const size_t prefix = why.find("] ");
    fail(ErrorKind::kValue, what,
         ": no JSON: ", prefix == std::string::npos ? why : why.substr(prefix + 2));
  }
}

}  // namespace mxlite
