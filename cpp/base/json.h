// Parses JSON from untrusted sources.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace mxlite {

using Json = nlohmann::json;

// Throws a value error that begins with `what` ("set_optimizer") if the text is not JSON (RFC 8259)
// or is nested deeper than `deepest` levels. If an object has equal names, the last value is used.
Json parse_json(const std::string& text, const std::string& what, int deepest = 32);

// Returns a JSON string with quotation marks.
std::string json_text(const std::string& text);

}  // namespace mxlite
