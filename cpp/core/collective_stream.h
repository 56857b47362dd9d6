// The stream on which collectives between the GPUs of this process run. Every device has one.
#pragma once
#include "cpp/core/marked_stream.h"

namespace mxlite {

// A kind of its own beside those in stream.h: memory is never allocated or freed in its order.
inline constexpr StreamKind kCollectiveStream{kNumStreamKinds};

}  // namespace mxlite
