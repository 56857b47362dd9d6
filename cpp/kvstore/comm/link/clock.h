// Conversions between seconds and the clock that deadlines use.
#pragma once
#include "cpp/kvstore/comm/deadline.h"

namespace mxlite {

inline double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}
inline Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace mxlite
