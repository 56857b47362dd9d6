#include "cpp/jobs/stall_text.h"

#include <map>

#include "cpp/base/str.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kNamesInWarning = 6;

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += str(text.empty() ? "" : ", ", r);
  return str(ranks.size() == 1 ? "rank " : "ranks ", text);
}

std::string stall_warning(const std::vector<Stall>& stalls, double seconds) {
  std::map<int, std::vector<std::string>> by_rank;
  for (const Stall& stall : stalls)
    for (const int r : stall.missing) by_rank[r].push_back(stall.name);
  std::string text = str(
      "mxlite: one or more tensors were submitted by some ranks and are awaited from others for "
      "more than ",
      seconds,
      " seconds. Maybe the ranks do not call the same operations, or a rank works or sleeps for "
      "long.\nStalled ranks:");
  for (const auto& [r, names] : by_rank) {
    text += str("\n", r, ": [");
    for (size_t i = 0; i < names.size() && i < kNamesInWarning; ++i)
      text += str(i ? ", " : "", names[i]);
    text += names.size() > kNamesInWarning ? " ...]" : "]";
  }
  return text;
}

std::string given_up_text(const std::vector<Stall>& stalls) {
  std::string text =
      "rank 0 has given up waiting (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS, "
      "MXLITE_COMM_TIMEOUT):";
  for (const Stall& stall : stalls)
    text += str(" '", stall.name, "' misses ", ranks_text(stall.missing), " since ",
                static_cast<int64_t>(stall.seconds), " s;");
  text.back() = '.';
  return text;
}

}  // namespace mxlite::jobs
