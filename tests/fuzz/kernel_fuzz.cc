// Files of compiled kernels: any bytes, and any bytes behind a magic number and a right checksum. The
// first byte chooses.
#include "cpp/base/crc32c.h"
#include "cpp/ops/rtc/code_store.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string file(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] < 192) {
    const std::string empty = rtc::encode_code("", {});
    const size_t magic = empty.find('\n') + 1;
    const uint32_t checksum = crc32c(file.data(), file.size());
    file = empty.substr(0, magic) +
           std::string(reinterpret_cast<const char*>(&checksum), sizeof checksum) + file;
  }
  fuzz::expect(
      [&] {
        const auto code = rtc::decode_code("key", std::as_bytes(std::span(file)));
        if (!code) return;
        fuzz::require(!code->image.empty(), "code has an image");
        // Repeated expressions are one entry, so that files may be shorter, but not other code.
        const std::string again = rtc::encode_code("key", *code);
        const auto second = rtc::decode_code("key", std::as_bytes(std::span(again)));
        fuzz::require(second && second->image == code->image && second->names == code->names,
                      "what is read can be written");
      },
      {ErrorKind::kRecord});
  return 0;
}
