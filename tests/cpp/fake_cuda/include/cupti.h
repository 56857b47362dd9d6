// The part of CUPTI that cpp/core/cuda/cupti_tracer.cc uses. The layout of records is not CUPTI's:
// tracer and fake library are both compiled with this header.
#pragma once
#include <cstddef>
#include <cstdint>

#define CUPTIAPI
#define CUPTI_API_VERSION 130001

enum CUptiResult { CUPTI_SUCCESS = 0, CUPTI_ERROR_MAX_LIMIT_REACHED = 12, CUPTI_ERROR_BUSY = 39 };
enum CUpti_ActivityKind {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
};
enum {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10,
};
enum { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
using CUcontext = struct FakeContext*;

struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct CUpti_ActivityKernel10 : CUpti_Activity {
  uint64_t start, end;
  uint32_t deviceId, streamId;
  const char* name;
};
struct CUpti_ActivityMemcpy6 : CUpti_Activity {
  uint8_t copyKind;
  uint64_t start, end;
  uint32_t deviceId, streamId;
};

using CUpti_BuffersCallbackRequestFunc = void (*)(uint8_t**, size_t*, size_t*);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext, uint32_t, uint8_t*, size_t, size_t);

extern "C" {
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc,
                                           CUpti_BuffersCallbackCompleteFunc);
CUptiResult cuptiActivityEnable(CUpti_ActivityKind);
CUptiResult cuptiActivityDisable(CUpti_ActivityKind);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t stream, size_t* dropped);
CUptiResult cuptiGetTimestamp(uint64_t*);
CUptiResult cuptiGetVersion(uint32_t*);
CUptiResult cuptiGetResultString(CUptiResult, const char**);
}
