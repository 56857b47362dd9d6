#include "cpp/predict/arguments.h"

namespace mxlite::predict {

size_t checked_count(int64_t count, const char* what) {
  MX_CHECK(count >= 0, what, " must be at least 0, got ", count);
  return static_cast<size_t>(count);
}

std::string text_at(const char* const* all, size_t index, const char* what) {
  return &pointed((&pointed(all, what))[index], what);
}

std::vector<std::string> texts(int64_t count, const char* const* all, const char* what) {
  std::vector<std::string> found;
  for (size_t i = 0; i < checked_count(count, what); ++i) found.push_back(text_at(all, i, what));
  return found;
}

DType dtype_of(int code) {
  constexpr int kLast = static_cast<int>(DType::kBFloat16);
  MX_CHECK_DTYPE(code >= 0 && code <= kLast, "the type code must be in [0, ", kLast, "], got ",
                 code);
  return static_cast<DType>(code);
}

Device device_of(int type, int index) {
  const bool is_gpu = type == static_cast<int>(DeviceType::kCUDA);
  MX_CHECK_KIND(is_gpu || type == static_cast<int>(DeviceType::kCPU), ErrorKind::kDevice,
                "the device type must be 1 (CPU) or 2 (GPU), got ", type);
  MX_CHECK_KIND(index >= 0, ErrorKind::kDevice, "the device number must be at least 0, got ",
                index);
  return is_gpu ? Device{DeviceType::kCUDA, index} : Device{};
}

std::shared_ptr<const Network> network_of(std::string_view symbol, const void* params, size_t size,
                                          Device device, const std::vector<std::string>& outputs) {
  const auto* first = &pointed(static_cast<const std::byte*>(params), "the parameters");
  const NamedArrays arrays = read_params(bytes_in_memory({first, size}, "the parameters"));
  return make_network(std::string(symbol), "the symbol", arrays, device, outputs);
}

}  // namespace mxlite::predict
