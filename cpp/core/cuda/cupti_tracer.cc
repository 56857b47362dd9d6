#include "cpp/core/cuda/cupti_tracer.h"

#if __has_include(<cupti.h>)
#include <cupti.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "cpp/base/str.h"
#include "cpp/core/function_finder.h"
#include "cpp/core/launch_log.h"
#include "cpp/core/plugin_loader.h"

namespace mxlite::cuda {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20, kAlignment = 8;
constexpr size_t kMostKernels = size_t{4} << 20;

int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Functions of CUPTI that the tracer calls. Their types come from the header.
struct Functions {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiGetVersion) version = nullptr;
  decltype(&cuptiGetResultString) text = nullptr;

  // Returns the name of the first function that the library lacks, or null if it has all functions.
  const char* load(void* library) {
    FunctionFinder find(library);
    find("cuptiActivityRegisterCallbacks", register_callbacks);
    find("cuptiActivityEnable", enable);
    find("cuptiActivityDisable", disable);
    find("cuptiActivityFlushAll", flush_all);
    find("cuptiActivityGetNextRecord", next_record);
    find("cuptiActivityGetNumDroppedRecords", dropped);
    find("cuptiGetTimestamp", timestamp);
    find("cuptiGetVersion", version);
    find("cuptiGetResultString", text);
    return find.missing();
  }
};

// Returns the major version, which determines the layout of records. For example, 130001 belongs to
// CUDA 13.
constexpr uint32_t major_version(uint32_t api_version) { return api_version / 10000; }

const char* name_of_copy(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy from the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "copy within the GPU";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "copy to another GPU";
    default:
      return "copy";
  }
}

class CuptiTracer final : public KernelTracer {
 public:
  explicit CuptiTracer(std::string library) : library_(std::move(library)) { instance = this; }

  void start() override {
    const std::lock_guard lock(mutex_);
    if (!loaded_) {
      loaded_ = true;
      const std::string problem = load();
      works_ = problem.empty();
      if (!works_)
        std::fprintf(stderr, "mxlite: the profile has no names of kernels: %s\n", problem.c_str());
    }
    if (!works_) return;
    uint64_t device_now = 0;
    functions_.timestamp(&device_now);
    offset_ = host_now() - static_cast<int64_t>(device_now);
    for (const CUpti_ActivityKind kind : kKinds)
      if (const CUptiResult status = functions_.enable(kind); status != CUPTI_SUCCESS) {
        works_ = false;
        std::fprintf(stderr, "mxlite: the profile has no names of kernels: %s\n",
                     text_of(status).c_str());
        return;
      }
  }

  void stop() override {
    const std::lock_guard lock(mutex_);
    if (!works_) return;
    functions_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    for (const CUpti_ActivityKind kind : kKinds) functions_.disable(kind);
  }

  uint64_t take(std::vector<DeviceKernel>& kernels) override {
    const std::lock_guard lock(mutex_);
    if (!works_) return 0;
    functions_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    const std::lock_guard records_lock(records_mutex_);
    kernels.insert(kernels.end(), records_.begin(), records_.end());
    records_.clear();
    return std::exchange(lost_, 0);
  }

 private:
  static constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                  CUPTI_ACTIVITY_KIND_MEMCPY};
  static CuptiTracer* instance;  // CUPTI's callbacks receive no user argument

  // Loads the library. Returns the reason why it cannot be used, or an empty text on success.
  std::string load() {
    std::vector<std::string> names = {library_};
    if (library_.empty())
      names = {"libcupti.so.13", "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13",
               "/usr/local/cuda/lib64/libcupti.so.13"};
    void* handle = nullptr;
    std::string why_not, first_reason;
    for (const std::string& name : names) {
      handle = load_plugin(name, why_not);
      if (handle) break;
      if (first_reason.empty()) first_reason = why_not;
    }
    if (!handle) return first_reason + " (pip install nvidia-cuda-cupti)";
    if (const char* missing = functions_.load(handle)) return str("CUPTI has no ", missing);
    uint32_t found = 0;
    functions_.version(&found);
    if (major_version(found) != major_version(CUPTI_API_VERSION))
      return str("CUPTI must be of CUDA ", major_version(CUPTI_API_VERSION), ", got version ",
                 found);
    if (const CUptiResult status = functions_.register_callbacks(&give_buffer, &take_buffer);
        status != CUPTI_SUCCESS)
      return text_of(status);
    return "";
  }

  std::string text_of(CUptiResult status) const {
    const char* text = nullptr;
    functions_.text(status, &text);
    return str("CUPTI: ", text ? text : "an unknown error",
               " (another profiler may be using the GPU)");
  }

  static void CUPTIAPI give_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
    *bytes = *buffer ? kBufferBytes : 0;
    *most_records = 0;  // 0 means as many records as fit
  }

  static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                                   size_t valid_bytes) {
    instance->read(buffer, valid_bytes);
    size_t dropped = 0;
    instance->functions_.dropped(context, stream, &dropped);
    {
      const std::lock_guard lock(instance->records_mutex_);
      instance->lost_ += dropped;
    }
    std::free(buffer);
  }

  // Reads the records of a buffer. Runs on a thread of CUPTI or within flush_all.
  void read(uint8_t* buffer, size_t valid_bytes) noexcept {
    CUpti_Activity* record = nullptr;
    while (valid_bytes > 0 &&
           functions_.next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
      if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const auto& k = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        add(k.start, k.end, k.name, nullptr, k.deviceId, k.streamId);
      } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const auto& c = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        add(c.start, c.end, nullptr, name_of_copy(c.copyKind), c.deviceId, c.streamId);
      }
    }
  }

  void add(uint64_t start, uint64_t end, const char* linker_name, const char* name, uint32_t device,
           uint32_t stream) noexcept {
    const std::lock_guard lock(records_mutex_);
    try {
      // A kernel that had not ended when CUPTI returned the buffer has no times.
      if (start == 0 || end < start || records_.size() >= kMostKernels) {
        ++lost_;
        return;
      }
      if (!name) name = intern_kernel_name(short_kernel_name(linker_name ? linker_name : "?"));
      records_.push_back({static_cast<int64_t>(start) + offset_,
                          static_cast<int64_t>(end) + offset_, name, static_cast<int>(device),
                          stream});
    } catch (const std::bad_alloc&) {
      ++lost_;
    }
  }

  const std::string library_;
  std::mutex mutex_;  // guards members that start, stop and take use
  bool loaded_ = false, works_ = false;
  Functions functions_;
  std::atomic<int64_t> offset_{0};  // converts CUPTI's time to the profiler's time
  std::mutex records_mutex_;        // locked after mutex_
  std::vector<DeviceKernel> records_;
  uint64_t lost_ = 0;
};
CuptiTracer* CuptiTracer::instance = nullptr;

}  // namespace

KernelTracer* make_cupti_tracer(const std::string& library) { return new CuptiTracer(library); }

}  // namespace mxlite::cuda
#else
namespace mxlite::cuda {

KernelTracer* make_cupti_tracer(const std::string&) { return nullptr; }

}  // namespace mxlite::cuda
#endif
