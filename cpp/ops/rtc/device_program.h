// A program that is compiled at run time: once for each architecture, then loaded onto the devices
// that use it.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "cpp/core/device_code.h"
#include "cpp/ops/rtc/nvrtc.h"

namespace mxlite::rtc {

class DeviceProgram {
 public:
  struct Kernel {
    const char* name;  // lives as long as the process
    CodeLoader::Function function;
  };

  // Returns the process's one object for equal programs, which is never destroyed, as device work
  // may use the code until the process ends. Compiles nothing yet.
  static DeviceProgram& get(SourceProgram program);

  // Compiles for the device unless that is done or the disk has the result:
  // MXLITE_CACHE_DIR/kernels. Throws a not-supported error without NVRTC, a value error if the
  // source is wrong.
  void compile_for(int device);
  // Compiles and loads as needed. `kernel` is one of the program's expressions, or a name that is
  // extern "C"; throws a value error if the program has no such kernel.
  Kernel find(int device, const std::string& kernel);

 private:
  explicit DeviceProgram(SourceProgram program) : program_(std::move(program)) {}
  const CompiledCode& code_for(int device);  // requires mutex_

  const SourceProgram program_;
  std::mutex mutex_;
  std::map<std::string, CompiledCode> code_;   // by architecture; guarded by mutex_, as the rest
  std::map<int, CodeLoader::Module> modules_;  // by device
  std::map<std::string, std::map<int, CodeLoader::Function>> functions_;  // by kernel and device
};

// Whether MXLITE_VERBOSE asks for lines about run-time compilation: "rtc".
bool is_verbose();

}  // namespace mxlite::rtc
