// The stream worker of collectives between the GPUs of this process. Every device has one.
#pragma once
#include "cpp/core/collective_stream.h"
#include "cpp/engine/engine.h"

namespace mxlite::engine {

// Its stream is kCollectiveStream, as those of the kinds in engine.h have the kinds in stream.h.
inline constexpr WorkerKind kCollectiveWorker{static_cast<uint8_t>(WorkerKind::kCopyOut) + 1};

}  // namespace mxlite::engine
