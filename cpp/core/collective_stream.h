// The stream on which collectives between the GPUs of this process run. Every device has one such
// stream.
#pragma once
#include "cpp/core/marked_stream.h"

namespace mxlite {

// A separate stream kind in addition to those in stream.h. Memory is never allocated or freed in
// the order of this stream.
inline constexpr StreamKind kCollectiveStream{kNumStreamKinds};

}  // namespace mxlite
