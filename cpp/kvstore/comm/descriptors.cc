#include "cpp/kvstore/comm/descriptors.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "cpp/base/error.h"

namespace mxlite {
namespace {

constexpr const char* kAdvice = "raise the limit of open files (ulimit -n)";

rlimit limit_of_descriptors() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "none" : str(limit); }

// Returns the number of open descriptors. Returns `most` if no descriptor is left to open the list
// of descriptors.
rlim_t count_open(rlim_t most) {
  DIR* const list = opendir("/proc/self/fd");
  if (!list) return errno == EMFILE ? most : 0;
  rlim_t count = 0;
  while (const dirent* entry = readdir(list))
    if (entry->d_name[0] != '.') ++count;
  closedir(list);
  return count - 1;  // excludes the descriptor of the list
}

}  // namespace

void reserve_descriptors(const std::string& who, int64_t needed, int64_t spare) {
  static std::mutex mutex;  // prevents a thread from lowering a limit that another thread has
                            // raised
  std::lock_guard lock(mutex);
  rlimit limit = limit_of_descriptors();
  const rlim_t open = count_open(limit.rlim_cur);
  const rlim_t least = open + static_cast<rlim_t>(needed);
  MX_CHECK_KIND(least <= limit.rlim_max, ErrorKind::kCommunicator, who, ": ", needed,
                " descriptors are needed in addition to ", open,
                " open descriptors, but the hard limit is ", limit_text(limit.rlim_max),
                "; raise it (ulimit -Hn, LimitNOFILE= of a service, ",
                "--ulimit nofile= of a container)");
  const rlim_t wanted = std::min(least + static_cast<rlim_t>(spare), limit.rlim_max);
  if (wanted <= limit.rlim_cur) return;
  const rlim_t before = std::exchange(limit.rlim_cur, wanted);
  MX_CHECK_KIND(setrlimit(RLIMIT_NOFILE, &limit) == 0 || least <= before, ErrorKind::kCommunicator,
                who, ": the limit of open files cannot be raised from ", before, " to ", wanted,
                ": ", std::strerror(errno), "; ", kAdvice);
}

bool is_descriptor_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string descriptor_shortage_text(int error) {
  const std::string text = std::strerror(error);
  if (error == ENFILE) return str(text, "; raise the host's limit (sysctl fs.file-max)");
  if (error != EMFILE) return text;
  const rlim_t most = limit_of_descriptors().rlim_cur;
  return str(text, ": ", count_open(most), " descriptors are open, the limit is ", limit_text(most),
             "; ", kAdvice);
}

}  // namespace mxlite
