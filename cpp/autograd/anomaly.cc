#include "cpp/autograd/anomaly.h"

#include <cmath>
#include <string>

#include "cpp/ops/invoke.h"

namespace mxlite::autograd {
namespace {

struct Findings {
  int64_t nan = 0, infinite = 0;
};

template <class T>
Findings count(const NDArray& a) {
  Findings found;
  const auto* values = static_cast<const T*>(a.data());
  for (int64_t i = 0; i < a.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    found.nan += std::isnan(value);
    found.infinite += std::isinf(value);
  }
  return found;
}

Findings look_at(const NDArrayRef& array) {
  if (!is_floating(array->dtype()) || array->size() == 0) return {};
  NDArrayRef host = array;
  if (array->device().type != DeviceType::kCPU) {
    host = NDArray::empty(array->spec(), Device{});
    copy_to(array, host);
  }
  host = contiguous(host);
  host->wait_to_read();
  return dispatch_floating("detect_anomaly", host->dtype(),
                           [&]<class T>(T) { return count<T>(*host); });
}

std::string line_of(engine::Origin origin) {
  return origin.file ? str(", called at ", origin.file, ":", origin.line) : std::string();
}

std::string describe(const NDArray& a, const Findings& found) {
  std::string text = str(a.shape(), " ", a.dtype());
  if (found.nan) text += str(", ", found.nan, " of ", a.size(), " NaN");
  if (found.infinite) text += str(", ", found.infinite, " of ", a.size(), " infinite");
  return text;
}

}  // namespace

void check_anomaly(const OpSchema& op, std::span<const NDArrayRef> inputs,
                   std::span<const NDArrayRef> outputs, const CallPlace& place) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Findings result = look_at(outputs[i]);
    if (!result.nan) continue;
    std::string who = op.name, where = line_of(place.origin), operands;
    if (place.gradient_of) {
      who = str("the gradient of ", place.gradient_of->name, " (in ", op.name, ")");
      where = line_of(place.forward);
    }
    std::string given;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Findings input = look_at(inputs[k]);
      const std::string name = op.input_name(static_cast<int>(k));
      if (input.nan && given.empty()) given = name;
      operands += str(k ? "; " : "", name, " ", describe(*inputs[k], input));
    }
    fail(ErrorKind::kError, "anomaly: ", who, where, ": output ", i, " is ",
         describe(*outputs[i], result),
         given.empty() ? std::string(", no input has NaN")
                       : str(", its input ", given, " has NaN that no operator computed"),
         " (", operands, ")");
  }
}

}  // namespace mxlite::autograd
