// A log of kernels with shapes, from which tools/gpu/predict.py computes how long the kernels of a
// real GPU should take. If MXLITE_FAKE_GPU_LAUNCHES names a file, the simulated GPU writes what it
// is given there instead of running it, so that arrays keep whatever is in their memory.
#pragma once
#include <cstdio>
#include <mutex>
#include <span>
#include <string>

#include "cpp/base/env.h"
#include "cpp/base/str.h"
#include "cpp/core/shape.h"

namespace mxlite {

// Returns a line of the log: the operators, the inputs and the outputs, separated by tabs. `list`
// holds tensors that have a shape and a dtype.
std::string launch_text(const std::string& operators, const auto& inputs, const auto& outputs) {
  std::string text = operators;
  const auto add = [&](const auto& list) {
    text += '\t';
    for (const auto& tensor : list) text += str(tensor.shape, ' ', dtype_name(tensor.dtype), ';');
  };
  add(inputs);
  add(outputs);
  return text;
}

inline bool launches_are_logged() {
  static const bool logged = !env_string("MXLITE_FAKE_GPU_LAUNCHES", "").empty();
  return logged;
}

// Appends a line to the file. Thread-safe.
inline void log_launch(const std::string& text) {
  static std::mutex mutex;
  static FILE* const file = std::fopen(env_string("MXLITE_FAKE_GPU_LAUNCHES", "").c_str(), "a");
  const std::lock_guard lock(mutex);
  MX_CHECK(file, "the file that MXLITE_FAKE_GPU_LAUNCHES names cannot be written");
  std::fprintf(file, "%s\n", text.c_str());
  std::fflush(file);
}

}  // namespace mxlite
