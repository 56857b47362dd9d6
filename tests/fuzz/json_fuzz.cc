// JSON texts that reach the parameter server: options of optimizers and commands.
#include "cpp/kvstore/store/json.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::expect([&] { store::Json::parse(text, "fuzz"); }, {ErrorKind::kValue});
  return 0;
}
