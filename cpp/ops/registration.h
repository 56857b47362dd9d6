// Registers operators and kernels: each file that defines some has one static Registration, so a
// new operator or kernel only needs a new file. The object files of cpp/ops are linked directly,
// not from an archive, so the linker cannot drop these statics.
#pragma once
#include <cstdint>

#include "cpp/ops/op_schema.h"

namespace mxlite {

// Stages of registration. The stages run in this order, and the files of one stage in the order of
// their paths, so the order does not depend on the linker. An operator's kernels are tried in the
// order of registration, so a library's kernels come before native kernels.
enum class Stage : uint8_t {
  kSchemas,
  kLibraryKernels,  // oneDNN's eager kernels
  kKernels,         // native kernels of the CPU, and all kernels of other devices
  kPlans,           // planned kernels (planned_kernel.h)
};

class Registration {
 public:
  using Function = void (*)(OpRegistry&);
  // `add` is called when the registry is filled; `file` is the path of the caller's file.
  Registration(Stage stage, Function add, const char* file = __builtin_FILE());
  Registration& operator=(Registration&&) = delete;  // neither copied nor moved

  // Runs all registrations that have not run yet. ops() calls this function on first use, and a
  // plug-in calls it after it is loaded.
  static void run_all(OpRegistry& ops);

 private:
  const Stage stage_;
  const Function add_;
  const char* const file_;
  const Registration* const next_;
};

}  // namespace mxlite
