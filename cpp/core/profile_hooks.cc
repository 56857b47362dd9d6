#include "cpp/core/profile_hooks.h"

namespace mxlite {

std::atomic<const ProfileListener*> profile_listener{nullptr};

}  // namespace mxlite
