// A simulation of libmxlite_cuda.so for machines without a GPU: two devices (or MXLITE_FAKE_GPUS)
// whose memory is host memory, whose streams are threads (tests/cpp/fake_stream.h) and whose
// kernels are the CPU's, or those of the CUDA backend on an emulator (tests/cpp/emulated_gpu).
// MXLITE_CUDA_LIBRARY=<path of this library> makes mx.gpu(0) work, so that everything above the
// driver can be tested: engine, copies, executables, recorded graphs, contexts in Python.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/core/accelerator.h"
#include "cpp/core/cuda/driver_problem.h"
#include "cpp/core/device_code.h"
#include "cpp/core/device_timer.h"
#include "cpp/core/launch_log.h"
#include "cpp/graph/run/device_graph.h"
#include "cpp/kvstore/comm/device_group.h"
#include "cpp/ndarray/copy.h"
#include "cpp/ops/op_schema.h"
#include "cpp/ops/rtc/generated_chain.h"
#include "tests/cpp/fake_gpu/kernels.h"
#include "tests/cpp/fake_gpu/launch_shapes.h"
#include "tests/cpp/fake_nccl/runtime.h"
#include "tests/cpp/fake_rtc/host_code.h"
#include "tests/cpp/recording_stream.h"

namespace mxlite {
namespace {

constexpr int64_t kTotal = int64_t{1} << 30;  // bytes of each device
constexpr int kPoison = 0xA5;                 // content of fresh and freed memory: reads of it show

class FakeGraph final : public graph::DeviceGraph {
 public:
  explicit FakeGraph(RecordingStream& recording)
      : works_(std::make_shared<const std::vector<RecordingStream::Work>>(
            std::move(recording.works))) {}
  void launch(Stream& stream, RandomState random) override {
    // Uses only what the executable owns: the executable may be destroyed when this returns.
    auto& target = static_cast<FakeStream&>(stream);
    target.give([works = works_, random] {
      for (const auto& work : *works) work(random);
    });
    target.synchronize();
  }

 private:
  std::shared_ptr<const std::vector<RecordingStream::Work>> works_;
};

class FakeRecorder final : public graph::GraphRecorder {
 public:
  std::unique_ptr<graph::DeviceGraph> record(Stream& stream, const FillFn& fill) override {
    static const RandomState marker;  // kernels only look whether there is one
    RecordingStream recording(static_cast<FakeStream&>(stream));
    fill(recording, &marker);
    return std::make_unique<FakeGraph>(recording);
  }
};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The time of a mark is when the stream's thread reached it.
class FakeTimer final : public DeviceTimer {
 public:
  struct Time final : Mark {
    std::promise<int64_t> reached;
    std::shared_future<int64_t> nanoseconds = reached.get_future().share();
  };
  std::shared_ptr<Mark> mark(Stream& stream) override {
    auto* const running = dynamic_cast<FakeStream*>(&stream);
    if (!running) return nullptr;
    auto time = std::make_shared<Time>();
    running->give([time] { time->reached.set_value(now()); });
    return time;
  }
  int64_t nanoseconds(const std::shared_ptr<Mark>& mark) override {
    return static_cast<Time&>(*mark).nanoseconds.get();
  }
};

// Kernels of the host, with the times at which they ran.
class FakeTracer final : public KernelTracer {
 public:
  void start() override { runs = true; }
  void stop() override { runs = false; }
  uint64_t take(std::vector<DeviceKernel>& kernels) override {
    const std::lock_guard lock(mutex_);
    kernels.insert(kernels.end(), kernels_.begin(), kernels_.end());
    kernels_.clear();
    return 0;
  }
  void add(const DeviceKernel& kernel) {
    const std::lock_guard lock(mutex_);
    kernels_.push_back(kernel);
  }
  std::atomic<bool> runs = false;

 private:
  std::mutex mutex_;
  std::vector<DeviceKernel> kernels_;
};
FakeTracer& tracer() {
  static auto* const instance = new FakeTracer;
  return *instance;
}

// Kernels are plain function pointers: number I runs the host's kernel of that number.
constexpr size_t kMostKernels = 1500;
struct HostKernel {
  KernelFn run;
  const char* name;
  bool breaks_device;
};
std::vector<HostKernel> cpu_kernels;

void run_on_host(size_t number, KernelContext ctx, RandomState base, const void* params, Inputs in,
                 Outputs out) {
  ctx.stream = own_stream();
  ctx.device_random = nullptr;
  ctx.random = {ctx.random.seed + base.seed, ctx.random.offset + base.offset};
  const HostKernel& kernel = cpu_kernels[number];
  if (launches_are_logged()) return log_launch(launch_text(kernel.name, in, out));
  const int64_t begin = now();
  run_own(kernel.name, [&] { kernel.run(ctx, params, in, out); });
  if (tracer().runs) tracer().add({begin, now(), kernel.name, ctx.device.index, 0});
}

void give_kernel(size_t number, KernelContext& ctx, const void* params, Inputs in, Outputs out) {
  if (auto* recording = dynamic_cast<RecordingStream*>(ctx.stream)) {
    recording->keep([number, ctx, params, inputs = std::vector<TensorRef>(in.begin(), in.end()),
                     outputs = std::vector<TensorRef>(out.begin(), out.end())](RandomState random) {
      run_on_host(number, ctx, random, params, inputs, outputs);
    });
    return;
  }
  // A plan of give_plan runs the kernel.
  if (ctx.stream == own_stream()) return run_on_host(number, ctx, {}, params, in, out);
  // The parameters are valid only until this function returns.
  ctx.stream->synchronize();
  note_launch(cpu_kernels[number].name);
  run_on_host(number, ctx, {}, params, in, out);
  // The stream reports this at a later call, as a GPU does.
  if (cpu_kernels[number].breaks_device)
    static_cast<FakeStream&>(*ctx.stream).break_with("illegal address, says the simulated GPU");
}

template <size_t I>
void run_kernel(KernelContext& ctx, const void* params, Inputs in, Outputs out) {
  give_kernel(I, ctx, params, in, out);
}

template <size_t... I>
constexpr std::array<KernelFn, sizeof...(I)> make_kernels(std::index_sequence<I...>) {
  return {&run_kernel<I>...};
}

// The operators for which libmxlite_cuda.so has no kernel.
std::set<std::string> operators_without_kernels() {
  std::ifstream file(MXLITE_TEST_DATA "/ops_without_cuda_kernel.txt");
  std::set<std::string> names;
  for (std::string name; file >> name;) names.insert(name);
  MX_ASSERT(!names.empty());
  names.insert(env_string("MXLITE_FAKE_GPU_WITHOUT", ""));  // for the test of a missing kernel
  return names;
}

void give_kernels(OpRegistry& ops) {
  static constexpr auto kernels = make_kernels(std::make_index_sequence<kMostKernels>());
  register_own_kernels(ops);
  const std::set<std::string> without = operators_without_kernels();
  const std::string breaking = env_string("MXLITE_FAKE_GPU_BREAKS", "");  // its kernel breaks a GPU
  for (OpSchema* op : ops.all()) {
    std::vector<Kernel>& own = op->kernels[DeviceType::kCUDA];
    if (without.count(op->name)) {
      own.clear();
      continue;
    }
    if (own.empty() && borrows_kernels(op->name)) own = op->kernels[DeviceType::kCPU];
    for (Kernel& kernel : own) {
      MX_ASSERT(cpu_kernels.size() < kMostKernels);
      const KernelFn run = kernel.run;
      kernel.run = kernels[cpu_kernels.size()];
      cpu_kernels.push_back({run, intern_kernel_name(op->name + "_kernel"), op->name == breaking});
    }
  }
}

// Lets the plan run on the host, in the stream's order. `text` is its line in the log of launches.
void run_in_order(Plan& plan, const char* name, bool is_awaited, const std::string& text) {
  plan.run = [run = plan.run, name, is_awaited, text](KernelContext& ctx, std::span<void* const> in,
                                                      std::span<void* const> out, void* scratch) {
    const auto work = [run, name, text, scratch, in = std::vector<void*>(in.begin(), in.end()),
                       out = std::vector<void*>(out.begin(), out.end())] {
      if (launches_are_logged()) return log_launch(text);
      KernelContext host;
      host.stream = own_stream();
      run_own(name, [&] { run(host, in, out, scratch); });
    };
    if (!is_awaited || dynamic_cast<RecordingStream*>(ctx.stream))
      return give_to(*ctx.stream, work);
    ctx.stream->synchronize();
    work();
  };
}
void give_plan(Plan& plan, const std::string& text) {
  run_in_order(plan, "a planned kernel", /*is_awaited=*/true, text);
}

// Planners are plain function pointers: number I asks the kernel's own planner.
constexpr size_t kMostPlanners = 64;
std::vector<PlanFn> own_planners;

template <size_t I>
std::optional<Plan> plan_in_order(const PlanRequest& request) {
  std::optional<Plan> plan = own_planners[I](request);
  if (plan) give_plan(*plan, launch_text(request.op.name, request.inputs, request.outputs));
  return plan;
}

template <size_t... I>
constexpr std::array<PlanFn, sizeof...(I)> make_planners(std::index_sequence<I...>) {
  return {&plan_in_order<I>...};
}

Plan reorder_in_order(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                      const Layout& to) {
  Plan plan = own_layouts().reorder(from_spec, from, to_spec, to);
  give_plan(plan, launch_text("reorder", std::span(&from_spec, 1), std::span(&to_spec, 1)));
  return plan;
}

void give_plans(const OpRegistry& ops) {
  static constexpr auto planners = make_planners(std::make_index_sequence<kMostPlanners>());
  std::set<const PlannedKernel*> given;
  for (const OpSchema* op : ops.all()) {
    const PlannedKernel* const own = find_planned_kernel(*op, DeviceType::kCUDA);
    if (!own || !given.insert(own).second) continue;
    MX_ASSERT(own_planners.size() < kMostPlanners);
    own_planners.push_back(own->plan);
    const_cast<PlannedKernel*>(own)->plan = planners[own_planners.size() - 1];
  }
  if (const LayoutBackend own = own_layouts(); own.reorder)
    set_layout_backend(DeviceType::kCUDA, {own.same, &reorder_in_order});
}

Plan plan_chain(PointwiseChain chain) {
  std::string steps = "chain";
  for (const PointwiseChain::Operation& step : chain.steps) steps += " " + step.op->name;
  std::vector<TensorSpec> results;
  for (const int v : chain.outputs) results.push_back(chain.values[static_cast<size_t>(v)]);
  const std::string text =
      launch_text(steps, std::span(chain.values).first(chain.num_inputs), results);
  Plan plan = plan_own_chain(std::move(chain));
  if (plan.run) run_in_order(plan, "a chain of operators", /*is_awaited=*/false, text);
  return plan;
}

// Run-time compiled kernels: the fake NVRTC compiles them for the host.
class FakeCodeLoader final : public CodeLoader {
 public:
  Module load(int, std::span<const std::byte> image) override {
    return test::load_host_code(image);
  }
  Function find(int, Module module, const std::string& kernel) override {
    const Function function = test::find_host_kernel(module, kernel);
    const std::lock_guard lock(mutex_);
    names_[function] = intern_kernel_name(kernel);
    return function;
  }
  void launch(Stream* stream, Function function, const LaunchGrid& grid,
              std::span<const KernelArgument> arguments) override {
    const auto launch = std::make_shared<const test::HostLaunch>(function, grid, arguments);
    const auto work = [launch, name = name_of(function)] { run_own(name, [&] { launch->run(); }); };
    if (stream == own_stream())  // inside plan_chain's work, which is in order already
      work();
    else
      give_to(*stream, work);
  }

 private:
  const char* name_of(Function function) {
    const std::lock_guard lock(mutex_);
    return names_[function];
  }

  std::mutex mutex_;
  std::map<Function, const char*> names_;  // guarded by mutex_
};

// The memory of all devices is host memory. The last stream adds floats, and the streams of other
// devices do nothing. With MXLITE_FAKE_GPU_HANGS=1, a sum ends only when it is aborted.
class FakeGroup final : public DeviceGroup {
 public:
  void all_reduce(std::span<const DeviceBuffer> buffers, int64_t count, DType dtype,
                  ReduceOp op) override {
    MX_CHECK_KIND(op == ReduceOp::kSum, ErrorKind::kNotSupported, "the stand-in only adds");
    give_to(*buffers.back().stream,
            [this, count, dtype, all = std::vector<DeviceBuffer>(buffers.begin(), buffers.end())] {
              while (env_int("MXLITE_FAKE_GPU_HANGS", 0) && !aborted_) std::this_thread::yield();
              add(all, count, dtype);
            });
  }
  void look() override {}
  void abort(const char*) noexcept override { aborted_ = true; }

 private:
  static void add(const std::vector<DeviceBuffer>& buffers, int64_t count, DType dtype) {
    dispatch_dtype(dtype, [&]<class T>(T) {
      for (int64_t i = 0; i < count; ++i) {
        double sum = 0;
        for (const DeviceBuffer& b : buffers)
          sum += static_cast<double>(static_cast<const T*>(b.input)[i]);
        for (const DeviceBuffer& b : buffers)
          static_cast<T*>(b.output)[i] = static_cast<T>(static_cast<float>(sum));
      }
    });
  }
  std::atomic<bool> aborted_ = false;
};

std::shared_ptr<DeviceGroup> make_fake_group(const std::vector<int>&) {
  return std::make_shared<FakeGroup>();
}

void copy_on_stream(Stream& stream, const Shape& shape, const StridedData& src,
                    const StridedData& dst) {
  give_to(stream, [shape, src, dst] {
    if (launches_are_logged())
      return log_launch(launch_text("copy", std::array{TensorSpec{shape, src.dtype}},
                                    std::array{TensorSpec{shape, dst.dtype}}));
    copy_strided(shape, src, dst);
  });
}

// Counts the bytes in use. The memory is ordinary host memory.
class FakePinned final : public Allocator {
 public:
  Block allocate(size_t bytes) override {
    const Block block = cpu_allocator().allocate(bytes);
    in_use_ += block.bytes;
    return block;
  }
  void free(Block block) noexcept override {
    in_use_ -= block.bytes;
    cpu_allocator().free(block);
  }
  void release_cached() override {}
  MemoryStats stats() const override { return {.in_use = in_use_, .peak = in_use_}; }

 private:
  std::atomic<size_t> in_use_ = 0;
};

class FakeAccelerator final : public Accelerator {
 public:
  FakeAccelerator()
      : devices_(static_cast<int>(env_int("MXLITE_FAKE_GPUS", 2))),
        limit_(static_cast<size_t>(env_int("MXLITE_GPU_MEMORY_LIMIT", kTotal))),
        in_use_(static_cast<size_t>(devices_)) {
    for (int d = 0; d < devices_; ++d)
      for (int k = 0; k < kKinds; ++k)
        streams_.push_back(std::make_unique<FakeStream>(d, static_cast<uint64_t>(10 * d + k)));
  }
  int count() const override { return devices_; }
  AcceleratorInfo info(int) const override { return {"fake GPU of the tests", "0.0", 1}; }
  // MXLITE_FAKE_GPU_KERNELS names the architectures of a build without kernels for this GPU.
  void check_usable(int device) override {
    const std::string compiled = env_string("MXLITE_FAKE_GPU_KERNELS", "");
    MX_CHECK_KIND(compiled.empty(), ErrorKind::kDevice,
                  cuda::architecture_problem(device, info(device).name, info(device).architecture,
                                             compiled.c_str()));
  }

  Block allocate(int device, size_t bytes, StreamKind first_user) override {
    std::atomic<size_t>& in_use = in_use_[static_cast<size_t>(device)];
    const size_t before = in_use.fetch_add(bytes);
    if (limit_ && before + bytes > limit_) {
      in_use -= bytes;
      fail(ErrorKind::kOutOfMemory, "out of memory on gpu(", device, "): ", bytes,
           " bytes requested, ", before, " in use, 0 cached, limit ", limit_);
    }
    void* data = allocate_own(bytes);
    static_cast<FakeStream&>(stream(device, first_user)).give([=] {
      std::memset(data, kPoison, bytes);
    });
    return {data, bytes};
  }
  void free(int device, Block block, StreamKind kind) noexcept override {
    static_cast<FakeStream&>(stream(device, kind)).give([this, device, block] {
      std::memset(block.data, kPoison, block.bytes);
      free_own(block.data);
      in_use_[static_cast<size_t>(device)] -= block.bytes;
    });
  }
  void release_cached(int) override {}
  MemoryStats stats(int device) const override {
    MemoryStats s;
    s.in_use = s.peak = in_use_[static_cast<size_t>(device)];
    s.limit = limit_;
    return s;
  }
  DeviceMemory memory(int device) override {
    return {static_cast<size_t>(kTotal) - in_use_[static_cast<size_t>(device)],
            static_cast<size_t>(kTotal)};
  }
  Allocator& pinned() override { return pinned_; }
  Stream& stream(int device, StreamKind kind) override {
    return *streams_[static_cast<size_t>(device * kKinds + static_cast<int>(kind))];
  }
  void synchronize(int device) override {
    for (int k = 0; k < kKinds; ++k) stream(device, static_cast<StreamKind>(k)).synchronize();
  }

 private:
  static constexpr int kKinds = kNumStreamKinds + 1;  // and kCollectiveStream
  const int devices_;
  const size_t limit_;
  std::vector<std::atomic<size_t>> in_use_;
  FakePinned pinned_;
  std::vector<std::unique_ptr<FakeStream>> streams_;
};

}  // namespace
}  // namespace mxlite

extern "C" __attribute__((visibility("default"))) mxlite::Accelerator* mxlite_plugin_load(
    std::string* why_not) {
  using namespace mxlite;
  constexpr int kNeeded = 13000;  // CUDA of the driver
  const auto driver = static_cast<int>(env_int("MXLITE_FAKE_GPU_DRIVER", kNeeded));
  *why_not = cuda::driver_problem(driver, kNeeded);
  if (!why_not->empty()) return nullptr;
  give_kernels(ops());
  give_plans(ops());
  // Chains are generated only for tests that ask for them, because the host's compiler takes
  // seconds for a chain.
  setenv("MXLITE_NVRTC_LIBRARY", FAKE_NVRTC, 0);
  setenv("MXLITE_NVRTC", "0", 0);
  set_code_loader(new FakeCodeLoader);
  set_chain_planner(DeviceType::kCUDA, {.plan = plan_chain, .takes_rows = &rtc::generates_chains});
  set_device_timer(new FakeTimer);
  set_kernel_tracer(&tracer());
  set_device_copy(&copy_on_stream);
  set_device_group_backend(&make_fake_group);
  set_device_backend(&nccl::fake_backend());
  graph::set_graph_recorder(new FakeRecorder);
  return new FakeAccelerator;  // leaked, as its threads
}
