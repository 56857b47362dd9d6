// Entry points that libmxlite.so calls after loading libmxlite_cuda.so (cpp/core/accelerator.cc).
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <cstdio>
#include <exception>
#include <string>

#include "cpp/base/env.h"
#include "cpp/core/cuda/accelerator.h"
#include "cpp/core/cuda/code_loader.h"
#include "cpp/core/cuda/cupti_tracer.h"
#include "cpp/core/cuda/driver_problem.h"
#include "cpp/core/cuda/event_timer.h"
#include "cpp/core/plugin_loader.h"
#include "cpp/graph/cuda/recorder.h"
#include "cpp/kvstore/comm/nccl/nccl_communicator.h"
#include "cpp/kvstore/comm/nccl/nccl_group.h"
#include "cpp/ndarray/cuda/copy.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/rtc/nvrtc.h"

namespace {

// Returns the path of the library file from which a function was loaded.
template <class F>
std::string path_of(F* function) {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(function), &info) && info.dli_fname ? info.dli_fname : "";
}

// Returns an error text if a loaded library has another major version than the headers that were
// used at compile time. Warns about an older minor version, which may lack functions that kernels
// call.
std::string problem_of_libraries() {
  const auto in_hundreds = [](auto v) {
    const int n = static_cast<int>(v);
    return mxlite::LibraryVersion{n / 10000, n / 100 % 100, n % 100};
  };
  const auto of_runtime = [](int v) { return mxlite::LibraryVersion{v / 1000, v % 1000 / 10, 0}; };
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  struct Library {
    const char* name;
    mxlite::LibraryVersion found, built;
    std::string path;
  };
  for (const Library& l : {Library{"the CUDA runtime", of_runtime(runtime),
                                   of_runtime(CUDART_VERSION), path_of(&cudaRuntimeGetVersion)},
                           Library{"cuDNN", in_hundreds(cudnnGetVersion()),
                                   in_hundreds(CUDNN_VERSION), path_of(&cudnnGetVersion)},
                           Library{"cuBLAS", in_hundreds(cublasLtGetVersion()),
                                   in_hundreds(CUBLAS_VERSION), path_of(&cublasLtGetVersion)},
                           Library{"NCCL", in_hundreds(mxlite::nccl::version_found()),
                                   in_hundreds(mxlite::nccl::version_built()), "libnccl.so.2"}}) {
    std::string problem = mxlite::version_problem(l.name, l.found, l.built, l.path);
    if (problem.empty()) continue;
    if (l.found[0] != l.built[0]) return problem;
    std::fprintf(stderr, "mxlite: %s\n", problem.c_str());
  }
  return "";
}

}  // namespace

extern "C" __attribute__((visibility("default"))) mxlite::Accelerator* mxlite_plugin_load(
    std::string* why_not) {
  *why_not = problem_of_libraries();
  if (!why_not->empty()) return nullptr;
  // The driver must support the major version of CUDA. Its minor version may be older.
  int driver = 0;
  cudaDriverGetVersion(&driver);
  *why_not = mxlite::cuda::driver_problem(driver, CUDART_VERSION / 1000 * 1000);
  if (!why_not->empty()) return nullptr;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    *why_not = mxlite::str("the CUDA driver finds no GPU: ", cudaGetErrorString(status));
    return nullptr;
  }
  try {
    // cuDNN's run-time compiled engines load NVRTC by name. The process's NVRTC is loaded first, so
    // that these engines use it.
    std::string ignored;
    mxlite::rtc::Nvrtc::get(&ignored);
    // The object is leaked, because arrays may outlive static destructors.
    auto* accelerator = new mxlite::cuda::CudaAccelerator(count);
    mxlite::set_device_timer(new mxlite::cuda::EventTimer);
    mxlite::set_code_loader(new mxlite::cuda::CudaCodeLoader);
    // "0" disables kernel names in profiles, "" loads the default library, and a path loads the
    // library at this path.
    if (const std::string cupti = mxlite::env_string("MXLITE_CUPTI", ""); cupti != "0")
      mxlite::set_kernel_tracer(mxlite::cuda::make_cupti_tracer(cupti));
    mxlite::set_device_copy(&mxlite::cuda::copy_strided);
    mxlite::set_device_group_backend(&mxlite::nccl::make_nccl_group);
    mxlite::set_device_backend(
        mxlite::nccl::make_nccl_backend(mxlite::nccl::cuda_runtime()).release());
    mxlite::graph::set_graph_recorder(new mxlite::cuda::CudaGraphRecorder);
    mxlite::Registration::run_all(mxlite::ops());  // the kernels of this library
    return accelerator;
  } catch (const std::exception& error) {
    *why_not = mxlite::str("the CUDA plug-in failed: ", error.what());
    return nullptr;
  }
}
