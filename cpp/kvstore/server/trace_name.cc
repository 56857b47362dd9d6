#include "cpp/kvstore/server/trace_name.h"

#include <mutex>
#include <unordered_set>

#include "cpp/base/str.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite::server {

const char* trace_name(const char* what, const std::string& key) {
  if (!profile_listener.load(std::memory_order_relaxed)) [[likely]]
    return what;
  // The objects are leaked, because recorded events may be read after the server has ended.
  static auto* const mutex = new std::mutex;
  static auto* const names = new std::unordered_set<std::string>;
  std::lock_guard lock(*mutex);
  return names->insert(str(what, " ", key)).first->c_str();
}

}  // namespace mxlite::server
