// The stream worker of collectives between the GPUs of this process. Every device has one such
// worker.
#pragma once
#include "cpp/core/collective_stream.h"
#include "cpp/engine/engine.h"

namespace mxlite::engine {

// A worker of this kind submits to kCollectiveStream. The workers of the kinds in engine.h submit
// to the streams in stream.h.
inline constexpr WorkerKind kCollectiveWorker{static_cast<uint8_t>(WorkerKind::kCopyOut) + 1};

}  // namespace mxlite::engine
