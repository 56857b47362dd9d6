#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "cpp/core/cuda/driver_context.h"
#include "cuda_runtime_api.h"

// Frees are done when the stream is synchronized, as on a device that has not run them yet.
struct FakeCudaStream {
  std::vector<void*> freed;
  FakeCudaGraph* capture = nullptr;
};
struct FakeCudaEvent {
  cudaStream_t recorded = nullptr;
  double milliseconds = 0;
};
struct FakeCudaPool {
  int device = 0;
  size_t used = 0, reserved = 0, high = 0;
  uint64_t threshold = 0;
};
struct FakeCudaGraph {
  std::vector<std::function<void()>> work;
};

namespace fake_cuda {
namespace {

struct Allocation {
  cudaMemPool_t pool;
  size_t bytes;
};
std::map<void*, Allocation> allocations;
std::map<void*, size_t> locked;

int current() {
  const State& s = state();
  return s.pushed.empty() ? s.current_device : s.pushed.back();
}

// Every call that needs a context makes one on the thread's current device.
void touch() { state().contexts.insert(current()); }

}  // namespace

bool fails(const char* call) {
  touch();
  State& s = state();
  if (s.fails != call) return false;
  s.fails.clear();
  s.last_error = s.error;
  return true;
}

namespace {

template <class T>
cudaError_t make(const char* call, T** out) {
  if (fails(call)) return state().error;
  *out = new T;
  ++state().live;
  return cudaSuccess;
}
template <class T>
cudaError_t destroy(T* object) {
  touch();
  delete object;
  --state().live;
  return cudaSuccess;
}

void finish(cudaStream_t stream) {
  for (void* data : stream->freed) {
    const Allocation a = allocations.at(data);
    a.pool->used -= a.bytes;
    allocations.erase(data);
    std::free(data);
    --state().live;
  }
  stream->freed.clear();
}

}  // namespace

State& state() {
  static State s;
  return s;
}
void reset() { state() = State(); }

cudaError_t give(cudaStream_t stream, std::function<void()> work) {
  if (stream->capture)
    stream->capture->work.push_back(std::move(work));
  else
    work();
  return cudaSuccess;
}

}  // namespace fake_cuda

using fake_cuda::destroy;
using fake_cuda::fails;
using fake_cuda::make;
using fake_cuda::state;

cudaError_t cudaGetLastError() { return std::exchange(state().last_error, cudaSuccess); }
const char* cudaGetErrorName(cudaError_t) { return "fakeError"; }
const char* cudaGetErrorString(cudaError_t) { return "a fault of the test"; }
cudaError_t cudaFuncGetName(const char** name, const void*) {
  *name = "_ZN6mxlite4cuda12_GLOBAL__N_112store_randomEPNS_11RandomStateES2_";
  return fails(__func__) ? state().error : cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* n) { return *n = 2, cudaSuccess; }
cudaError_t cudaGetDevice(int* d) { return *d = fake_cuda::current(), cudaSuccess; }
cudaError_t cudaSetDevice(int d) {  // makes the context, as CUDA 12 and later do
  state().contexts.insert(d);
  return state().current_device = d, cudaSuccess;
}

namespace mxlite::cuda {

void push_context(int device) {
  state().contexts.insert(device);
  state().pushed.push_back(device);
}
void pop_context() noexcept { state().pushed.pop_back(); }

}  // namespace mxlite::cuda

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) { return *can = 1, cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  fake_cuda::touch();
  *total = fake_cuda::kDeviceBytes;
  *free = 7;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) { return make(__func__, s); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  fake_cuda::finish(s);
  return destroy(s);
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  state().log.push_back("synchronize");
  fake_cuda::finish(s);
  return fails(__func__) ? state().error : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  fake_cuda::touch();
  state().log.push_back(s == e->recorded ? "waits for itself" : "waits");
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return make(__func__, e); }
cudaError_t cudaEventCreate(cudaEvent_t* e) { return make(__func__, e); }
cudaError_t cudaEventElapsedTime(float* elapsed, cudaEvent_t begin, cudaEvent_t end) {
  if (fails(__func__)) return state().error;
  *elapsed = static_cast<float>(end->milliseconds - begin->milliseconds);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) { return destroy(e); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  fake_cuda::touch();
  e->recorded = s;
  e->milliseconds = state().milliseconds;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  state().log.push_back("sleeps");
  fake_cuda::finish(e->recorded);
  return fails(__func__) ? state().error : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (fails(__func__)) return state().error;
  return e->recorded->freed.empty() ? cudaSuccess : state().last_error = cudaErrorNotReady;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, cudaMemcpyKind, cudaStream_t s) {
  fake_cuda::touch();
  return fake_cuda::give(s, [=] { std::memcpy(to, from, n); });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* p) {
  const cudaError_t status = make(__func__, pool);
  if (status == cudaSuccess) (*pool)->device = p->location.id;
  return status;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return destroy(pool); }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  fake_cuda::touch();
  if (which == cudaMemPoolAttrReleaseThreshold) pool->threshold = *static_cast<uint64_t*>(value);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  fake_cuda::touch();
  *static_cast<uint64_t*>(value) = which == cudaMemPoolAttrReservedMemCurrent ? pool->reserved
                                   : which == cudaMemPoolAttrUsedMemCurrent   ? pool->used
                                                                              : pool->high;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc* access, size_t) {
  fake_cuda::touch();
  state().peers.push_back(access->location.id);
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  fake_cuda::touch();
  pool->reserved = std::max(pool->used, std::min(pool->reserved, keep));
  return cudaSuccess;
}
// A cached block is used again if the new block fits into it.
cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool, cudaStream_t s) {
  if (fails(__func__)) return state().error;
  if (s->capture) return cudaErrorStreamCaptureUnsupported;
  const size_t fresh = bytes <= pool->reserved - pool->used ? 0 : bytes;
  if (pool->reserved + fresh > fake_cuda::kDeviceBytes)
    return state().last_error = cudaErrorMemoryAllocation;
  *data = std::malloc(bytes);
  fake_cuda::allocations[*data] = {pool, bytes};
  ++state().live;
  pool->used += bytes;
  pool->reserved += fresh;
  pool->high = std::max(pool->high, pool->used);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t s) {
  fake_cuda::touch();
  s->freed.push_back(data);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  ++state().host_calls;
  if (fails(__func__)) return state().error;
  if (state().host_bytes + bytes > state().host_limit)
    return state().last_error = cudaErrorMemoryAllocation;
  *data = std::malloc(bytes);
  fake_cuda::locked[*data] = bytes;
  state().host_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  fake_cuda::touch();
  state().host_bytes -= fake_cuda::locked.at(data);
  fake_cuda::locked.erase(data);
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  return make(__func__, &s->capture);
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  *graph = std::exchange(s->capture, nullptr);
  return fails(__func__) ? (destroy(*graph), *graph = nullptr, state().error) : cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  const cudaError_t status = make(__func__, exec);
  if (status == cudaSuccess) (*exec)->work = graph->work;
  return status;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return destroy(exec); }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  for (const auto& work : exec->work) work();
  return cudaSuccess;
}
