// JSON texts: options of optimizers for parameter servers, symbol files.
#include "cpp/base/json.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect(
      [&] {
        const Json json = parse_json(text, "fuzz");
        fuzz::require(parse_json(json.dump(), "fuzz") == json, "what is written can be read");
      },
      {ErrorKind::kValue});
  return 0;
}
