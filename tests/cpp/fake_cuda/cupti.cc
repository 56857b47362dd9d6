// A library with CUPTI's functions for cuda_runtime_test. While kernels are recorded, every flush
// gives the same records: two kernels and a copy that overlaps the second, one kernel that has not
// ended, and a record of another kind.
//   MXLITE_FAKE_CUPTI=busy  enabling fails, as if another profiler were there
//   MXLITE_FAKE_CUPTI=old   the library is that of an earlier CUDA
#include <cupti.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

constexpr size_t kRecord = 64;
constexpr uint64_t kNow = 1000000;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
int enabled = 0;
uint8_t* next = nullptr;

bool mode(const char* name) {
  const char* given = std::getenv("MXLITE_FAKE_CUPTI");
  return given && std::strcmp(given, name) == 0;
}

template <class Record>
void put(uint8_t*& at, const Record& record) {
  static_assert(sizeof(Record) <= kRecord);
  new (at) Record(record);
  at += kRecord;
}

}  // namespace

#define EXPORT __attribute__((visibility("default")))

EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                                  CUpti_BuffersCallbackCompleteFunc c) {
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  if (mode("busy")) return CUPTI_ERROR_BUSY;
  ++enabled;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind) { return --enabled, CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiActivityFlushAll(uint32_t) {
  if (enabled == 0) return CUPTI_SUCCESS;
  uint8_t* buffer = nullptr;
  size_t bytes = 0, most = 1;
  request(&buffer, &bytes, &most);
  if (bytes < 5 * kRecord || most != 0) std::abort();
  uint8_t* at = next = buffer;
  const CUpti_Activity kernel{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};
  const CUpti_Activity copy{CUPTI_ACTIVITY_KIND_MEMCPY};
  // The records are not sorted by time.
  put(at, CUpti_ActivityKernel10{kernel, kNow + 500, kNow + 900, 1, 7, "sm90_gemm"});
  put(at, CUpti_ActivityKernel10{kernel, kNow + 100, kNow + 400, 1, 7,
                                 "_ZN6mxlite4cuda12forward_rowsIfEEvPf"});
  put(at,
      CUpti_ActivityMemcpy6{copy, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, kNow + 600, kNow + 1000, 1, 7});
  put(at, CUpti_ActivityKernel10{kernel, 0, 0, 1, 7, "unfinished"});
  put(at, CUpti_Activity{CUPTI_ACTIVITY_KIND_OVERHEAD});
  complete(nullptr, 0, buffer, bytes, static_cast<size_t>(at - buffer));
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid,
                                              CUpti_Activity** record) {
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  next += kRecord;
  return CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  return *dropped = 2, CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetTimestamp(uint64_t* now) { return *now = kNow, CUPTI_SUCCESS; }
EXPORT CUptiResult cuptiGetVersion(uint32_t* v) {
  return *v = mode("old") ? 120100 : CUPTI_API_VERSION, CUPTI_SUCCESS;
}
EXPORT CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  return *text = "CUPTI_ERROR_BUSY", CUPTI_SUCCESS;
}
