// The part of the CUDA runtime that cpp/core/cuda and cpp/graph/cuda call, for g++: two devices
// whose memory is counted and whose streams run work immediately. Tests can request faults.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#define __global__

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorCudartUnloading = 4,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorContained = 226,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorContextIsDestroyed = 709,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorTensorMemoryLeak = 721,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorExternalDevice = 911,
  cudaErrorUnknown = 999,
};
cudaError_t cudaGetLastError();
const char* cudaGetErrorName(cudaError_t);
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaFuncGetName(const char** name, const void* function);

cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

using cudaStream_t = struct FakeCudaStream*;
using cudaEvent_t = struct FakeCudaEvent*;
using cudaMemPool_t = struct FakeCudaPool*;
using cudaGraph_t = struct FakeCudaGraph*;
using cudaGraphExec_t = struct FakeCudaGraph*;
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventBlockingSync = 1 };
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
enum cudaMemcpyKind { cudaMemcpyDefault };
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t, cudaMemcpyKind, cudaStream_t);

enum cudaMemAllocationType { cudaMemAllocationTypePinned };
enum cudaMemLocationType { cudaMemLocationTypeDevice };
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
struct cudaMemPoolProps {
  cudaMemAllocationType allocType;
  cudaMemLocation location;
};
enum { cudaMemAccessFlagsProtReadWrite = 3 };
struct cudaMemAccessDesc {
  cudaMemLocation location;
  int flags;
};
enum cudaMemPoolAttr {
  cudaMemPoolReuseAllowInternalDependencies,
  cudaMemPoolAttrReleaseThreshold,
  cudaMemPoolAttrReservedMemCurrent,
  cudaMemPoolAttrUsedMemCurrent,
  cudaMemPoolAttrUsedMemHigh,
};
cudaError_t cudaMemPoolCreate(cudaMemPool_t*, const cudaMemPoolProps*);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t count);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t keep);
cudaError_t cudaMallocFromPoolAsync(void**, size_t, cudaMemPool_t, cudaStream_t);
cudaError_t cudaFreeAsync(void*, cudaStream_t);
enum { cudaHostAllocPortable = 1 };
cudaError_t cudaHostAlloc(void**, size_t, unsigned flags);
cudaError_t cudaFreeHost(void*);

enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess,
  cudaDriverEntryPointSymbolNotFound,
};
enum { cudaEnableDefault = 0 };
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult*);

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1) : x(x_) {}  // NOLINT: as CUDA's
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace fake_cuda {

constexpr size_t kDeviceBytes = size_t{4} << 20;

// Returns whether the test lets this call fail. State::error is then its result.
bool fails(const char* call);
// Runs the work immediately, or records it if the stream is captured.
cudaError_t give(cudaStream_t, std::function<void()> work);

// State that a test sets and reads. Call reset() before each test.
struct State {
  int current_device = 0;   // what cudaSetDevice was given
  std::vector<int> pushed;  // devices whose contexts are current, the last one first
  std::set<int> contexts;   // devices on which a context was made
  size_t host_bytes = 0, host_limit = SIZE_MAX;  // page-locked
  int host_calls = 0;
  int live = 0;                                // objects and blocks that were not destroyed
  std::string fails;                           // name of the call that fails, once
  cudaError_t error = cudaErrorLaunchFailure;  // with this
  cudaError_t last_error = cudaSuccess;
  double milliseconds = 0;       // the device's clock
  std::vector<int> peers;        // devices with access to a pool
  std::vector<std::string> log;  // waits, synchronizations and calls of the driver
};
State& state();
void reset();

}  // namespace fake_cuda

template <class... Params, class... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                               Args... args) {
  if (fake_cuda::fails("cudaLaunchKernelEx")) return fake_cuda::state().error;
  return fake_cuda::give(config->stream, [=] { kernel(args...); });
}
