// Tests memory, streams and recorded graphs of the CUDA backend on a simulated runtime in host
// memory: retries, caching, releases and error texts.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cpp/core/cuda/architectures.h"
#include "cpp/core/cuda/check.h"
#include "cpp/core/cuda/code_loader.h"
#include "cpp/core/cuda/cupti_tracer.h"
#include "cpp/core/cuda/event_timer.h"
#include "cpp/core/cuda/pinned.h"
#include "cpp/core/cuda/pool.h"
#include "cpp/core/cuda/stream.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/profiler.h"
#include "cpp/graph/cuda/recorder.h"
#include "tests/cpp/errors.h"

namespace mxlite::cuda {

const char* compiled_architectures() { return "9.0"; }

namespace {

using fake_cuda::kDeviceBytes;
using fake_cuda::state;

class CudaRuntimeTest : public testing::Test {
 protected:
  CudaRuntimeTest() { fake_cuda::reset(); }
  ~CudaRuntimeTest() override { EXPECT_EQ(state().live, 0) << "not given back"; }
};

struct PoolAndStream {
  MemoryPool pool{0};
  CudaStream stream{0, pool.raw()};
  Block take(size_t bytes) {
    const cudaStream_t streams[] = {stream.raw()};
    return pool.allocate(bytes, stream.raw(), streams);
  }
};

TEST_F(CudaRuntimeTest, PoolsKeepTheirMemoryAndLetOtherDevicesIn) {
  const MemoryPool pool(1);
  EXPECT_EQ(state().peers, std::vector<int>{0});
}

TEST_F(CudaRuntimeTest, StatisticsFollowTheBlocks) {
  PoolAndStream p;
  const Block a = p.take(1000), b = p.take(24);
  EXPECT_EQ(p.pool.stats().in_use, 1024u);
  p.pool.free(a, p.stream.raw());
  p.stream.synchronize();
  EXPECT_EQ(p.pool.stats().in_use, 24u);
  EXPECT_EQ(p.pool.stats().cached, 1000u);
  EXPECT_EQ(p.pool.stats().peak, 1024u);
  p.pool.release_cached();
  EXPECT_EQ(p.pool.stats().cached, 0u);
  p.pool.free(b, p.stream.raw());
}

TEST_F(CudaRuntimeTest, TheHostSleepsOnlyForWorkThatIsNotDoneSoon) {
  PoolAndStream p;
  p.stream.synchronize();
  EXPECT_TRUE(state().log.empty());
  p.pool.free(p.take(1000), p.stream.raw());  // the free is done when the event is waited for
  p.stream.synchronize();
  EXPECT_EQ(state().log, std::vector<std::string>{"sleeps"});
  EXPECT_EQ(state().last_error, cudaSuccess);
}

// Library handles compare ids, because a new stream may get the address of a destroyed one.
TEST_F(CudaRuntimeTest, StreamsHaveIdsOfTheirOwn) {
  PoolAndStream p;
  std::set<uint64_t> ids{p.stream.id()};
  for (int i = 0; i < 10; ++i) ids.insert(CudaStream(p.stream).id());
  EXPECT_EQ(ids.size(), 11u);
}

TEST_F(CudaRuntimeTest, ABlockOfNothingIsABlock) {
  PoolAndStream p;
  const Block block = p.take(0);
  EXPECT_NE(block.data, nullptr);
  EXPECT_EQ(block.bytes, 0u);
  p.pool.free(block, p.stream.raw());
}

TEST_F(CudaRuntimeTest, AFullDeviceWaitsForItsFreesAndTriesAgain) {
  PoolAndStream p;
  const Block first = p.take(kDeviceBytes - 100);
  p.pool.free(first, p.stream.raw());  // the device has not run it yet
  const Block second = p.take(kDeviceBytes);
  EXPECT_EQ(state().log, std::vector<std::string>{"synchronize"});
  EXPECT_EQ(state().last_error, cudaSuccess);
  p.pool.free(second, p.stream.raw());
}

TEST_F(CudaRuntimeTest, AFullDeviceWaitsForTheFreesOfAllStreams) {
  PoolAndStream p;
  CudaStream other(0, p.pool.raw());
  const cudaStream_t streams[] = {p.stream.raw(), other.raw()};
  const Block first = p.take(kDeviceBytes - 100);
  p.pool.free(first, other.raw());
  const Block second = p.pool.allocate(kDeviceBytes, p.stream.raw(), streams);
  p.pool.free(second, p.stream.raw());
}

TEST_F(CudaRuntimeTest, OutOfMemorySaysWhatWasAskedAndUsed) {
  PoolAndStream p;
  const Block block = p.take(1000);
  const std::string text = error_of([&] { p.take(2 * kDeviceBytes); }, ErrorKind::kOutOfMemory);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "out of memory on gpu(0): 8388608 bytes requested, 1000 in use, 0 cached, limit 4194304, "
      "7 free on the device");
  EXPECT_EQ(state().last_error, cudaSuccess);
  p.pool.free(p.take(1000), p.stream.raw());  // the pool still works
  p.pool.free(block, p.stream.raw());
}

TEST_F(CudaRuntimeTest, TheLimitHoldsForWhatIsInUse) {
  setenv("MXLITE_GPU_MEMORY_LIMIT", "4096", 1);
  PoolAndStream p;
  unsetenv("MXLITE_GPU_MEMORY_LIMIT");
  const Block block = p.take(4096);
  const std::string text = error_of([&] { p.take(1); }, ErrorKind::kOutOfMemory);
  EXPECT_HAS(text, "1 bytes requested, 4096 in use, 0 cached, limit 4096");
  p.pool.free(block, p.stream.raw());
  p.pool.free(p.take(4096), p.stream.raw());  // after a wait for the free
}

TEST_F(CudaRuntimeTest, OtherFailuresAreNotRetried) {
  PoolAndStream p;
  state().fails = "cudaMallocFromPoolAsync";
  const std::string text = error_of([&] { p.take(10); }, ErrorKind::kDevice);
  EXPECT_HAS(text, "cudaMallocFromPoolAsync failed: fakeError, a fault of the test");
  EXPECT_TRUE(state().log.empty());
}

TEST_F(CudaRuntimeTest, ErrorsThatBreakTheDeviceSaySo) {
  for (const cudaError_t status :
       {cudaErrorIllegalAddress, cudaErrorMisalignedAddress, cudaErrorContained,
        cudaErrorNvlinkUncorrectable, cudaErrorTensorMemoryLeak, cudaErrorExternalDevice}) {
    const std::string text =
        error_of([&] { throw_cuda_error(status, "launch of relu"); }, ErrorKind::kDevice);
    EXPECT_HAS(text, "earlier work of the GPU may be the cause");
  }
  for (const cudaError_t status :
       {cudaErrorDevicesUnavailable, cudaErrorContextIsDestroyed, cudaErrorUnknown}) {
    EXPECT_TRUE(breaks_the_device(status));
    const std::string text =
        error_of([&] { throw_cuda_error(status, "copy"); }, ErrorKind::kDevice);
    EXPECT_HAS(text, "the GPU does not answer");
  }
  const std::string text = error_of(
      [] { throw_cuda_error(cudaErrorStreamCaptureUnsupported, "x"); }, ErrorKind::kDevice);
  EXPECT_EQ(text.find("cannot use it any more"), std::string::npos) << text;
}

TEST_F(CudaRuntimeTest, AMissingKernelNamesTheArchitectures) {
  const std::string text = error_of(
      [] { throw_cuda_error(cudaErrorNoKernelImageForDevice, "launch"); }, ErrorKind::kDevice);
  EXPECT_HAS(text, "this build has kernels for 9.0");
}

TEST_F(CudaRuntimeTest, PinnedBlocksAreReusedBySizeClass) {
  PinnedAllocator pinned;
  const Block a = pinned.allocate(5000);
  pinned.free(a);
  EXPECT_EQ(pinned.stats().cached, 8192u);
  const Block b = pinned.allocate(8000);
  EXPECT_EQ(b.data, a.data);
  EXPECT_EQ(pinned.stats().in_use, 8192u);
  EXPECT_EQ(pinned.stats().cached, 0u);
  const Block small = pinned.allocate(1);
  EXPECT_EQ(pinned.stats().in_use, 8192u + 4096u);
  EXPECT_EQ(state().host_calls, 2);
  pinned.free(b);
  pinned.free(small);
  pinned.release_cached();
  EXPECT_EQ(state().host_bytes, 0u);
  EXPECT_EQ(pinned.stats().peak, 8192u + 4096u);
}

TEST_F(CudaRuntimeTest, PinnedMemoryDropsItsCacheBeforeItGivesUp) {
  state().host_limit = 3 * 4096;
  PinnedAllocator pinned;
  pinned.free(pinned.allocate(4096));
  const Block large = pinned.allocate(8192);
  const Block small = pinned.allocate(4096);
  pinned.free(large);
  const std::string text = error_of([&] { pinned.allocate(16384); }, ErrorKind::kOutOfMemory);
  EXPECT_HAS(text, "out of page-locked memory: 16384 bytes requested, 4096 in use, 0 cached");
  EXPECT_EQ(state().last_error, cudaSuccess);
  pinned.free(small);
  pinned.release_cached();
  EXPECT_EQ(state().host_bytes, 0u);
}

TEST_F(CudaRuntimeTest, ScratchMemoryGrowsInStepsAndIsKept) {
  PoolAndStream p;
  void* const first = p.stream.scratch(100);
  EXPECT_EQ(p.stream.scratch(1 << 20), first);
  EXPECT_EQ(p.pool.stats().in_use, size_t{1} << 20);
}

TEST_F(CudaRuntimeTest, ScratchMemoryThatCannotGrowIsGoneAndTakenAnew) {
  PoolAndStream p;
  p.stream.scratch(100);
  EXPECT_NE(error_of([&] { p.stream.scratch(2 * kDeviceBytes); }, ErrorKind::kOutOfMemory), "");
  p.stream.synchronize();
  EXPECT_EQ(p.pool.stats().in_use, 0u);
  EXPECT_NE(p.stream.scratch(100), nullptr);
}

TEST_F(CudaRuntimeTest, ScratchMemoryIsFoundWhereThePoolHasCached) {
  PoolAndStream p;
  for (const Block block : {p.take(1000000), p.take(1000000)}) p.pool.free(block, p.stream.raw());
  p.stream.synchronize();
  EXPECT_EQ(p.pool.stats().cached, 2000000u);
  EXPECT_NE(p.stream.scratch(3 << 20), nullptr);
  EXPECT_EQ(p.pool.stats().cached, 0u);
}

TEST_F(CudaRuntimeTest, StreamsWaitForTheOtherOnes) {
  PoolAndStream p;
  CudaStream other(0, p.pool.raw());
  p.stream.wait_for(other);
  EXPECT_EQ(state().log, std::vector<std::string>{"waits"});
}

TEST_F(CudaRuntimeTest, AMarkIsAnEventOfItsStream) {
  PoolAndStream p;
  CudaStream other(0, p.pool.raw());
  {
    const auto mark = p.stream.mark();
    other.wait_for_mark(*mark);
    p.stream.synchronize_mark(*mark);
    EXPECT_TRUE(p.stream.has_passed(*mark));
  }
  p.stream.break_with("the others are lost");
  const std::string text = error_of([&] { p.stream.synchronize(); }, ErrorKind::kCommunicator);
  EXPECT_HAS(text, "the others are lost");
}

// A thread that has used no device works on GPU 1, and GPU 0 keeps all of its memory.
TEST_F(CudaRuntimeTest, WorkOnOneDeviceMakesNoContextOnAnother) {
  {
    MemoryPool pool(1);
    CudaStream stream(1, pool.raw());
    PinnedAllocator pinned;
    pinned.use_device(1);
    pinned.use_device(0);  // pinned memory keeps its first device
    const cudaStream_t streams[] = {stream.raw()};
    const Block block = pool.allocate(100, stream.raw(), streams);
    EXPECT_NE(error_of([&] { pool.allocate(2 * kDeviceBytes, stream.raw(), streams); },
                       ErrorKind::kOutOfMemory),
              "");
    int from = 1, to = 0;
    stream.copy(&to, &from, sizeof(int));
    stream.scratch(100);
    stream.synchronize();
    pool.stats();
    pool.free(block, stream.raw());
    pool.release_cached();
    pinned.free(pinned.allocate(100));
    pinned.release_cached();
  }
  EXPECT_EQ(state().contexts, std::set<int>{1});
  EXPECT_TRUE(state().pushed.empty());
  EXPECT_EQ(state().current_device, 0);
}

TEST_F(CudaRuntimeTest, AGraphIsDestroyedOnItsOwnDevice) {
  MemoryPool pool(1);
  CudaStream stream(1, pool.raw());
  CudaGraphRecorder recorder;
  stream.enter();  // by the worker that records
  auto graph = recorder.record(stream, [](Stream&, const RandomState*) {});
  state().current_device = 0;  // another thread
  graph.reset();
  EXPECT_EQ(state().contexts, std::set<int>{1});
}

TEST_F(CudaRuntimeTest, ScratchOfAnotherDeviceLeavesTheCallersDevice) {
  MemoryPool pool(1);
  CudaStream stream(1, pool.raw());
  cudaSetDevice(0);
  stream.scratch(100);
  EXPECT_EQ(state().current_device, 0);
  stream.enter();
  EXPECT_EQ(state().current_device, 1);
}

TEST_F(CudaRuntimeTest, MarksTellTheTimesOfTheDevice) {
  MemoryPool pool(1);
  CudaStream stream(1, pool.raw());
  EventTimer timer;
  std::vector<std::shared_ptr<DeviceTimer::Mark>> marks;
  // Over 30 hours, neighbouring floats of milliseconds differ by 8, so the event that time is
  // measured from must be renewed.
  for (int i = 0; i < 100; ++i) {
    marks.push_back(timer.mark(stream));
    state().milliseconds += i % 2 ? 2.16e6 : 0.001;
  }
  std::vector<int64_t> times;
  for (const auto& mark : marks) times.push_back(timer.nanoseconds(mark));
  for (size_t i = 0; i < times.size(); i += 2) EXPECT_NEAR(times[i + 1] - times[i], 1000, 300) << i;
  EXPECT_EQ(state().contexts, std::set<int>{1});
}

TEST_F(CudaRuntimeTest, AMarkOfABrokenDeviceThrows) {
  PoolAndStream p;
  EventTimer timer;
  const auto mark = timer.mark(p.stream);
  state().fails = "cudaEventSynchronize";
  EXPECT_NE(error_of([&] { timer.nanoseconds(mark); }, ErrorKind::kDevice), "");
}

// CUDA remembers "not ready" as the thread's last error, which launches report.
TEST_F(CudaRuntimeTest, AnEventThatIsNotReachedLeavesNoError) {
  PoolAndStream p;
  p.pool.free(p.take(1), p.stream.raw());
  cudaEvent_t event = nullptr;
  MX_CUDA(cudaEventCreate(&event));
  MX_CUDA(cudaEventRecord(event, p.stream.raw()));
  EXPECT_FALSE(is_reached(event));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  p.stream.synchronize();
  EXPECT_TRUE(is_reached(event));
  state().fails = "cudaEventQuery";
  EXPECT_NE(error_of([&] { is_reached(event); }, ErrorKind::kDevice), "");
  MX_CUDA(cudaEventDestroy(event));
}

int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST_F(CudaRuntimeTest, KernelsHaveTheirNamesAndTimesOfTheProfilersClock) {
  KernelTracer* const tracer = make_cupti_tracer(MXLITE_TEST_CUPTI);
  const int64_t before = host_now();
  tracer->start();
  const int64_t after = host_now();
  tracer->stop();
  std::vector<DeviceKernel> kernels;
  // The fake CUPTI drops two records, and the tracer discards one that has no end time.
  EXPECT_EQ(tracer->take(kernels), 2u + 1u);
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_STREQ(kernels[0].name, "sm90_gemm");
  EXPECT_STREQ(kernels[1].name, "forward_rows");
  EXPECT_STREQ(kernels[2].name, "copy from the host");
  EXPECT_EQ(kernels[1].end - kernels[1].begin, 300);
  EXPECT_GE(kernels[1].begin, before + 100);
  EXPECT_LE(kernels[1].begin, after + 100);
  EXPECT_EQ(kernels[1].device, 1);
  EXPECT_EQ(tracer->take(kernels), 0u);
  EXPECT_EQ(kernels.size(), 3u);  // nothing is recorded while it is stopped
}

TEST_F(CudaRuntimeTest, KernelsAreEventsOfTheProfileOnTracksOfTheirOwn) {
  start_profiler({});
  // It starts at once because the profiler runs.
  set_kernel_tracer(make_cupti_tracer(MXLITE_TEST_CUPTI));
  stop_profiler();
  const ProfileRecord record = take_profile();
  EXPECT_EQ(record.dropped, 3u);
  ASSERT_EQ(record.events.size(), 6u);
  const auto name = [&](size_t i) { return std::string(record.events[i].name); };
  EXPECT_EQ(name(0), "forward_rows");  // sorted by time
  EXPECT_EQ(name(2), "sm90_gemm");
  EXPECT_EQ(name(4), "copy from the host");
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(record.events[i].kind, ProfileKind::kDevice);
    EXPECT_EQ(record.events[i].phase, i % 2 ? 'E' : 'B');
  }
  EXPECT_EQ(record.events[0].thread, record.events[2].thread);
  EXPECT_NE(record.events[2].thread, record.events[4].thread);  // they overlap
  set_kernel_tracer(nullptr);
  EXPECT_TRUE(take_profile().events.empty());
}

TEST_F(CudaRuntimeTest, ATracerThatCannotRecordSaysWhyOnce) {
  for (const char* mode : {"busy", "old", "absent"}) {
    ::setenv("MXLITE_FAKE_CUPTI", mode, 1);
    const bool absent = std::string(mode) == "absent";
    KernelTracer* const tracer =
        make_cupti_tracer(absent ? "/nowhere/libcupti.so" : MXLITE_TEST_CUPTI);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) {
      tracer->start();
      tracer->stop();
    }
    const std::string said = testing::internal::GetCapturedStderr();
    ::unsetenv("MXLITE_FAKE_CUPTI");
    EXPECT_HAS(said, "no names of kernels") << mode;
    EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
    std::vector<DeviceKernel> kernels;
    EXPECT_EQ(tracer->take(kernels), 0u) << mode;
    EXPECT_TRUE(kernels.empty());
  }
}

TEST_F(CudaRuntimeTest, LaunchesAreNamedInTheLogAndInTheirErrors) {
  PoolAndStream p;
  CudaGraphRecorder recorder;
  const auto graph = recorder.record(p.stream, [](Stream&, const RandomState*) {});
  const LaunchScope task(1);
  graph->launch(p.stream, {});
  EXPECT_EQ(kernels_of_task(1), "store_random");
  state().fails = "cudaLaunchKernelEx";
  const std::string text = error_of([&] { graph->launch(p.stream, {}); }, ErrorKind::kDevice);
  EXPECT_HAS(text, "launch of store_random failed");
}

struct Recording {
  PoolAndStream p;
  CudaGraphRecorder recorder;
  int target = 0, source = 1;
  const RandomState* seen = nullptr;
  std::unique_ptr<graph::DeviceGraph> record() {
    return recorder.record(p.stream, [this](Stream& stream, const RandomState* random) {
      seen = random;
      stream.copy(&target, &source, sizeof(int));
    });
  }
};

TEST_F(CudaRuntimeTest, RecordedWorkRunsAtEveryLaunchWithThatRunsRandomState) {
  Recording r;
  const auto graph = r.record();
  EXPECT_EQ(r.target, 0);  // recorded, not run
  for (int i = 1; i < 4; ++i) {
    r.source = i;
    graph->launch(r.p.stream, {5, static_cast<uint64_t>(i)});
    EXPECT_EQ(r.target, i);
    EXPECT_EQ(r.seen->seed, 5u);
    EXPECT_EQ(r.seen->offset, static_cast<uint64_t>(i));
  }
}

TEST_F(CudaRuntimeTest, RecordingsHaveNoTimesOfTheirOwn) {
  PoolAndStream p;
  EventTimer timer;
  CudaGraphRecorder recorder;
  const auto graph = recorder.record(p.stream, [&](Stream& stream, const RandomState*) {
    EXPECT_EQ(timer.mark(stream), nullptr);
  });
  EXPECT_NE(timer.mark(p.stream), nullptr);
}

TEST_F(CudaRuntimeTest, RecordingsUseTheOwnersScratchAndCannotGrowIt) {
  PoolAndStream p;
  void* const scratch = p.stream.scratch(100);
  CudaGraphRecorder recorder;
  const auto graph = recorder.record(p.stream, [&](Stream& stream, const RandomState*) {
    EXPECT_EQ(stream.scratch(1 << 20), scratch);
    EXPECT_EQ(&stream.attachment(), &p.stream.attachment());
    EXPECT_NE(error_of([&] { stream.scratch((1 << 20) + 1); }, ErrorKind::kDevice), "");
  });
  EXPECT_NE(graph, nullptr);
}

TEST_F(CudaRuntimeTest, WhatCannotBeRecordedThrowsAndLeavesNothing) {
  PoolAndStream p;
  CudaGraphRecorder recorder;
  const auto thrower = [](Stream&, const RandomState*) { fail(ErrorKind::kValue, "of a kernel"); };
  const std::string text = error_of([&] { recorder.record(p.stream, thrower); }, ErrorKind::kValue);
  EXPECT_HAS(text, "of a kernel");
  for (const char* call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    Recording r;
    state().fails = call;
    const std::string said = error_of([&] { r.record(); }, ErrorKind::kDevice);
    EXPECT_HAS(said, call);
    EXPECT_EQ(r.target, 0);
    EXPECT_NE(r.record(), nullptr);  // the stream can be recorded again
  }
}

TEST_F(CudaRuntimeTest, AHalfMadeStreamGivesBackWhatItHas) {
  const MemoryPool pool(0);
  for (const char* call : {"cudaStreamCreateWithFlags", "cudaEventCreateWithFlags"}) {
    state().fails = call;
    EXPECT_NE(error_of([&] { CudaStream(0, pool.raw()); }, ErrorKind::kDevice), "");
  }
}

// The context of the device is current while code is loaded; launches name their stream.
TEST_F(CudaRuntimeTest, CodeIsLoadedOnItsDeviceAndLaunchedOnTheStream) {
  PoolAndStream p;
  CudaCodeLoader loader;
  const auto image = [](const char* text) {
    return std::as_bytes(std::span(text, std::strlen(text) + 1));
  };
  state().log.clear();
  const CodeLoader::Module module = loader.load(1, image("axpy scale"));
  const CodeLoader::Function axpy = loader.find(1, module, "axpy");
  EXPECT_EQ(loader.find(1, module, "no_kernel"), nullptr);
  EXPECT_TRUE(state().pushed.empty());
  int value = 7;
  const KernelArgument arguments[] = {{&value, sizeof value}};
  loader.launch(&p.stream, axpy, {{3, 1, 1}, {64, 1, 1}, 0}, arguments);
  loader.launch(&p.stream, axpy, {{3, 1, 1}, {64, 1, 1}, 64 << 10}, arguments);
  EXPECT_EQ(state().log, (std::vector<std::string>{
                             "load on 1", "find axpy on 1", "find no_kernel on 1",
                             "launch axpy 3 x 64, shared 0, argument 7", "shared memory 65536",
                             "launch axpy 3 x 64, shared 65536, argument 7"}));
}

TEST_F(CudaRuntimeTest, FaultsOfTheDriverAreDeviceErrors) {
  PoolAndStream p;
  CudaCodeLoader loader;
  const std::byte nothing[1] = {};
  EXPECT_EQ(error_of([&] { loader.load(0, nothing); }, ErrorKind::kDevice),
            "cuModuleLoadData failed: CUDA driver error 200, a fault of the driver");
  EXPECT_TRUE(state().pushed.empty());
  const CodeLoader::Module module = loader.load(0, std::as_bytes(std::span("axpy")));
  const CodeLoader::Function axpy = loader.find(0, module, "axpy");
  int value = 7;
  const KernelArgument arguments[] = {{&value, sizeof value}};
  EXPECT_EQ(error_of(
                [&] {
                  loader.launch(&p.stream, axpy, {{0, 1, 1}, {64, 1, 1}, 0}, arguments);
                },
                ErrorKind::kDevice),
            "cuLaunchKernel failed: CUDA driver error 1, a fault of the driver");
}

}  // namespace
}  // namespace mxlite::cuda
