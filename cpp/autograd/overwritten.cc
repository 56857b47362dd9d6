#include "cpp/autograd/overwritten.h"

#include <mutex>
#include <set>
#include <utility>

#include "cpp/autograd/anomaly.h"
#include "cpp/engine/write_line.h"

namespace mxlite::autograd {
namespace {

Warn warn_python = nullptr;

using Lines = std::set<std::pair<std::string, int>>;
std::mutex mutex;
Lines& warned() {  // guarded by mutex
  static auto* const lines = new Lines;
  return *lines;
}

}  // namespace

void set_write_warning(Warn warn) { warn_python = warn; }

void report_overwritten(const std::string& what, const Shape& shape, uint64_t version) {
  const engine::Origin line = engine::line_of_version(version);
  const std::string place = line.file ? str(line.file, ":", line.line) : "";
  const std::string text = str("backward: ", what, ", an array of shape ", shape,
                               ", was changed in place after it was recorded",
                               place.empty() ? "" : " (at " + place + ")");
  constexpr const char* kRemedy =
      "call backward before the write, or record a copy of the array (x.copy())";
  MX_CHECK_KIND(!anomaly_checks.load(), ErrorKind::kError, text,
                "; its old value is needed: ", kRemedy);
  if (!warn_python) return;
  std::pair<std::string, int> key{line.file ? line.file : "", line.line};
  {
    const std::lock_guard lock(mutex);
    if (warned().contains(key)) return;
  }
  // Releases the mutex first, because the warning may run Python code. If the warning throws, the
  // line is not marked as reported and will be reported again.
  warn_python(str(text,
                  ", so gradients are computed from its new value, as in MXNet 1.x. If its "
                  "old value is needed, ",
                  kRemedy, "; autograd.detect_anomaly() turns this warning into an error"),
              line);
  const std::lock_guard lock(mutex);
  warned().insert(std::move(key));
}

}  // namespace mxlite::autograd
