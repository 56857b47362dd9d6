#include "cpp/core/cuda/code_loader.h"

#include <vector>

#include "cpp/core/cuda/driver.h"
#include "cpp/core/cuda/stream.h"

namespace mxlite::cuda {
namespace {

// Dynamic shared memory that a block may use without cuFuncSetAttribute.
constexpr unsigned kSharedBytesOfAnyKernel = 48 << 10;

struct Driver {
  Driver() {
    find_driver_function("cuModuleLoadData", load);
    find_driver_function("cuModuleGetFunction", find);
    find_driver_function("cuFuncSetAttribute", set_attribute);
    find_driver_function("cuLaunchKernel", launch);
    find_driver_function("cuGetErrorString", error_text);
  }

  CUresult (*load)(CUmodule*, const void*) = nullptr;
  CUresult (*find)(CUfunction*, CUmodule, const char*) = nullptr;
  CUresult (*set_attribute)(CUfunction, CUfunction_attribute, int) = nullptr;
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void**, void**) = nullptr;
  CUresult (*error_text)(CUresult, const char**) = nullptr;
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver().error_text(status, &text);
  const ErrorKind kind =
      status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::kOutOfMemory : ErrorKind::kDevice;
  fail(kind, call, " failed: CUDA driver error ", static_cast<int>(status), ", ",
       text ? text : "unknown");
}

}  // namespace

CodeLoader::Module CudaCodeLoader::load(int device, std::span<const std::byte> image) {
  const DeviceGuard guard(device);
  CUmodule module = nullptr;
  check(driver().load(&module, image.data()), "cuModuleLoadData");
  return module;
}

CodeLoader::Function CudaCodeLoader::find(int device, Module module, const std::string& kernel) {
  const DeviceGuard guard(device);
  CUfunction function = nullptr;
  const CUresult status = driver().find(&function, static_cast<CUmodule>(module), kernel.c_str());
  if (status == CUDA_ERROR_NOT_FOUND) return nullptr;
  check(status, "cuModuleGetFunction");
  return function;
}

void CudaCodeLoader::launch(Stream* stream, Function function, const LaunchGrid& grid,
                            std::span<const KernelArgument> arguments) {
  auto& target = static_cast<CudaStream&>(*stream);
  auto* const kernel = static_cast<CUfunction>(function);
  if (grid.shared_bytes > kSharedBytesOfAnyKernel)
    check(driver().set_attribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(grid.shared_bytes)),
          "cuFuncSetAttribute");
  std::vector<void*> values;
  for (const KernelArgument& a : arguments) values.push_back(const_cast<void*>(a.value));
  check(driver().launch(kernel, grid.blocks[0], grid.blocks[1], grid.blocks[2], grid.threads[0],
                        grid.threads[1], grid.threads[2], grid.shared_bytes, target.raw(),
                        values.data(), nullptr),
        "cuLaunchKernel");
}

}  // namespace mxlite::cuda
