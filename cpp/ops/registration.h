// Makes operators known: each of their files has one static Registration, so that a new file
// is all that a new operator or kernel needs. The objects of cpp/ops are linked as they are, never
// picked from an archive, so none of these statics can get lost.
#pragma once
#include <cstdint>

namespace mxlite {

class OpRegistry;

// Says what a registration adds. Stages run in this order, files of a stage by their path, whatever
// order the linker gave them. Candidates of an operator are tried in the order of registration:
// a library's kernels before native ones.
enum class Stage : uint8_t {
  kSchemas,
  kLibraryKernels,  // oneDNN's eager kernels
  kKernels,         // native kernels of the CPU, all kernels of other devices
  kPlans,           // planned kernels (planned_kernel.h)
};

class Registration {
 public:
  using Function = void (*)(OpRegistry&);
  // `add` is called when the registry is filled; `file` is the caller's.
  Registration(Stage stage, Function add, const char* file = __builtin_FILE());
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  // Calls those that were not called yet: ops() does so when it is first used, and a plug-in after
  // it was loaded.
  static void run_all(OpRegistry& ops);

 private:
  const Stage stage_;
  const Function add_;
  const char* const file_;
  const Registration* const next_;
};

}  // namespace mxlite
