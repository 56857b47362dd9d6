// JSON of untrusted origin.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace mxlite {

using Json = nlohmann::json;

// Throws a value error that begins with `what` ("set_optimizer") for text that is not JSON
// (RFC 8259) or is nested deeper than 32 levels. Of equal names in an object the last one counts.
Json parse_json(const std::string& text, const std::string& what);

}  // namespace mxlite
