#include "cpp/autograd/anomaly.h"

#include <cmath>
#include <optional>
#include <string>

#include "cpp/ops/invoke.h"
#include "cpp/ops/tensor/take.h"

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
  const NDArrayRef host = on_host(array);
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

// An input with indices. The call clips these indices to 0 <= index < limit.
struct Indices {
  size_t input;
  int64_t limit;
};

std::optional<Indices> clipped_indices(const OpSchema& op, const void* params,
                                       std::span<const NDArrayRef> inputs) {
  if (op.name == "Embedding") return Indices{0, inputs[1]->shape()[0]};
  std::optional<int> axis;
  if (op.name == "take") {
    const auto& p = *static_cast<const TakeParams*>(params);
    if (p.mode == IndexMode::kClip) axis = p.axis;
  } else if (op.name == "pick") {
    const auto& p = *static_cast<const PickParams*>(params);
    if (p.mode == PickMode::kClip) axis = p.axis;
  } else if (op.name == "_contrib_pick_log_softmax") {
    axis = -1;
  }
  if (!axis) return {};
  const Shape& data = inputs[0]->shape();
  return Indices{1, data[normalize_axis(op.name.c_str(), *axis, data.ndim())]};
}

// Throws if `op` has clipped an index and has therefore used another row or class than the given
// one.
void check_indices(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                   const CallPlace& place) {
  const auto indices = clipped_indices(op, params, inputs);
  if (!indices || inputs[indices->input]->size() == 0) return;
  const NDArrayRef host = on_host(inputs[indices->input]);
  dispatch_dtype(host->dtype(), [&]<class T>(T) {
    const auto* values = static_cast<const T*>(host->data());
    for (int64_t i = 0; i < host->size(); ++i) {
      const double index = std::trunc(static_cast<double>(values[i]));
      if (index >= 0 && index < static_cast<double>(indices->limit)) continue;
      fail(ErrorKind::kIndex, "anomaly: ", op.name, line_of(place.origin), ": ",
           op.input_name(static_cast<int>(indices->input)), " must be 0 to ", indices->limit - 1,
           ", got ", static_cast<double>(values[i]), " at flat position ", i, " of shape ",
           host->shape(), "; ", op.name, " clips such indices");
    }
  });
}

}  // namespace

void check_anomaly(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                   std::span<const NDArrayRef> outputs, const CallPlace& place) {
  if (!place.gradient_of) check_indices(op, params, inputs, place);
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
