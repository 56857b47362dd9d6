#include "cpp/jobs/options.h"

#include <cstring>
#include <map>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/jobs/process_sets.h"

namespace mxlite::jobs {
namespace {

constexpr uint32_t kProtocol = 9;
// In bytes. For larger tensors in shared memory, copying takes longer than a separate collective.
constexpr int64_t kFuseBelow = int64_t{512} << 10;

// Checks that all ranks have the same version, because a rank would misread frames of another
// version.
void check_versions(const std::string& version, Communicator& ranks) {
  struct Version {
    uint32_t protocol = kProtocol;
    char build[24] = {};
  } mine;
  std::strncpy(mine.build, version.c_str(), sizeof mine.build - 1);
  std::vector<Version> all(static_cast<size_t>(ranks.size()));
  ranks.describe("versions");
  ranks.all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  for (size_t r = 0; r < all.size(); ++r)
    MX_CHECK_KIND(all[r].protocol == mine.protocol && !std::strcmp(all[r].build, mine.build),
                  ErrorKind::kCommunicator, "rank ", r, " runs mxlite ", all[r].build, ", rank ",
                  ranks.rank(), " runs ", mine.build, ": all ranks need the same version");
}

// Checks that all ranks create the same process sets. Otherwise ranks would wait for each other or
// mix up arrays.
void check_process_sets(const std::vector<std::vector<int>>& sets, Communicator& ranks) {
  std::string mine;
  for (const auto& members : sets)
    mine += str(mine.empty() ? "" : " and ", "that of ", ranks_text(members));
  if (mine.empty()) mine = "none";
  const auto bytes = static_cast<uint64_t>(mine.size());
  std::vector<uint64_t> sizes(static_cast<size_t>(ranks.size()));
  ranks.describe("process sets");
  ranks.all_gather(&bytes, sizes.data(), std::vector<size_t>(sizes.size(), sizeof bytes));
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), size_t{0}), '\0');
  ranks.all_gather(mine.data(), all.data(), counts);
  std::map<std::string, std::vector<int>> ranks_by_text;
  size_t begin = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    const size_t count = counts[static_cast<size_t>(r)];
    ranks_by_text[all.substr(begin, count)].push_back(r);
    begin += count;
  }
  if (ranks_by_text.size() == 1) return;
  std::string given;
  for (const auto& [text, callers] : ranks_by_text)
    given += str(given.empty() ? "" : "; ", text, " on ", ranks_text(callers));
  fail(ErrorKind::kCommunicator, "the ranks give different process sets: ", given,
       "; all ranks must give the same sets in the same order");
}

}  // namespace

JobOptions agree(JobOptions mine, Communicator& all) {
  check_versions(mine.version, all);
  check_process_sets(mine.process_sets, all);
  const std::string backend = all.backend();
  if (backend == "shm" || backend == "local") mine.settings.fuse_below = kFuseBelow;
  all.describe("settings");
  all.broadcast(&mine.settings, sizeof mine.settings, 0);
  return mine;
}

}  // namespace mxlite::jobs
