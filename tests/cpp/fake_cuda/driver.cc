// Functions of the driver, which the runtime finds by name; each call is a line of the log.
#include <map>
#include <string>

#include "cuda.h"

struct FakeModule {
  std::string names;
};
struct FakeFunction {
  std::string name;
};

namespace {

using fake_cuda::state;

template <class... Args>
void log(const Args&... args) {
  std::string line;
  ((line += args), ...);
  const auto& pushed = state().pushed;
  state().log.push_back(line + " on " + (pushed.empty() ? "none" : std::to_string(pushed.back())));
}

CUresult load(CUmodule* module, const void* image) {
  log("load");
  const std::string names = static_cast<const char*>(image);
  if (names.empty()) return CUDA_ERROR_INVALID_IMAGE;
  *module = new FakeModule{names};
  return CUDA_SUCCESS;
}
CUresult find(CUfunction* function, CUmodule module, const char* name) {
  log("find ", std::string(name));
  if (module->names.find(name) == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  *function = new FakeFunction{name};
  return CUDA_SUCCESS;
}
CUresult set_attribute(CUfunction, CUfunction_attribute, int value) {
  state().log.push_back("shared memory " + std::to_string(value));
  return value > (227 << 10) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult launch(CUfunction function, unsigned x, unsigned, unsigned, unsigned threads, unsigned,
                unsigned, unsigned shared, CUstream, void** values, void**) {
  state().log.push_back("launch " + function->name + " " + std::to_string(x) + " x " +
                        std::to_string(threads) + ", shared " + std::to_string(shared) +
                        ", argument " + std::to_string(*static_cast<int*>(values[0])));
  return x == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult error_text(CUresult, const char** text) {
  *text = "a fault of the driver";
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  static const std::map<std::string, void*> functions = {
      {"cuModuleLoadData", reinterpret_cast<void*>(&load)},
      {"cuModuleGetFunction", reinterpret_cast<void*>(&find)},
      {"cuFuncSetAttribute", reinterpret_cast<void*>(&set_attribute)},
      {"cuLaunchKernel", reinterpret_cast<void*>(&launch)},
      {"cuGetErrorString", reinterpret_cast<void*>(&error_text)},
  };
  const auto function = functions.find(name);
  *found = function == functions.end() ? cudaDriverEntryPointSymbolNotFound
                                       : cudaDriverEntryPointSuccess;
  *address = function == functions.end() ? nullptr : function->second;
  return cudaSuccess;
}
