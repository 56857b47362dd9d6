// Parses JSON from untrusted sources.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace mxlite {

using Json = nlohmann::json;

// Throws a value error that begins with `what` ("set_optimizer") for text that is not JSON
// (RFC 8259) or is nested deeper than `deepest` levels. Of equal names in an object the last one
// counts.
Json parse_json(const std::string& text, const std::string& what, int deepest = 32);

// A text with quotation marks.
std::string json_text(const std::string& text);

}  // namespace mxlite
