#include "cpp/core/cuda/kernel_name.h"

#include <cuda_runtime_api.h>

#include <unordered_map>

#include "cpp/core/launch_log.h"

namespace mxlite::cuda {

const char* kernel_name(const void* function) {
  // The map is thread-local, so that launches look names up without a lock.
  thread_local std::unordered_map<const void*, const char*> known;
  const auto found = known.find(function);
  if (found != known.end()) return found->second;
  const char* linker_name = nullptr;
  const char* name = "a kernel";
  if (cudaFuncGetName(&linker_name, function) == cudaSuccess && linker_name)
    name = intern_kernel_name(short_kernel_name(linker_name));
  else
    cudaGetLastError();  // clears the error, because the launch reports it
  return known.emplace(function, name).first->second;
}

}  // namespace mxlite::cuda
