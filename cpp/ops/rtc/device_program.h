// A program that is compiled at run time: once per architecture, then loaded onto the devices that
// use it.
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
    const char* name;  // valid until the process ends
    CodeLoader::Function function;
  };

  // Returns the process's object for equal programs, without compiling. The object is never
  // destroyed, because device work may use the code until the process ends.
  static DeviceProgram& get(SourceProgram program);

  // Compiles for the device unless the result exists in memory or on disk
  // (MXLITE_CACHE_DIR/kernels). Throws a not-supported error without NVRTC, and a value error if
  // the source is invalid.
  void compile_for(int device);
  // Returns a kernel, after compiling and loading if necessary. `kernel` is one of the program's
  // expressions, or the name of an extern "C" function. Throws a value error if the program has no
  // such kernel.
  Kernel find(int device, const std::string& kernel);

 private:
  explicit DeviceProgram(SourceProgram program) : program_(std::move(program)) {}
  const CompiledCode& code_for(int device);  // call with mutex_ held

  const SourceProgram program_;
  std::mutex mutex_;
  std::map<std::string, CompiledCode> code_;   // by architecture; guarded by mutex_, like the
                                               // members below
  std::map<int, CodeLoader::Module> modules_;  // by device
  std::map<std::string, std::map<int, CodeLoader::Function>> functions_;  // by kernel and device
};

// Returns whether MXLITE_VERBOSE contains "rtc", which requests lines about run-time compilation.
bool is_verbose();

}  // namespace mxlite::rtc
