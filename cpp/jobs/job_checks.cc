// Checks that all ranks of a job have one version, the same settings and process sets.
#include <cstring>
#include <map>
#include <numeric>
#include <string>

#include "cpp/base/error.h"
#include "cpp/jobs/job.h"
#include "cpp/jobs/stall_text.h"

namespace mxlite::jobs {
namespace {

constexpr uint32_t kProtocol = 9;

}  // namespace

// All ranks must speak the same protocol, or a rank of another version would misread frames.
void Job::check_versions() {
  struct Version {
    uint32_t protocol = kProtocol;
    char build[24] = {};
  } mine;
  std::strncpy(mine.build, options_.version.c_str(), sizeof mine.build - 1);
  std::vector<Version> all(static_cast<size_t>(size));
  groups_[0]->describe("versions");
  groups_[0]->all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  for (int r = 0; r < size; ++r) {
    const Version& theirs = all[static_cast<size_t>(r)];
    MX_CHECK_KIND(theirs.protocol == mine.protocol && !std::strcmp(theirs.build, mine.build),
                  ErrorKind::kCommunicator, "rank ", r, " runs mxlite ", theirs.build, ", rank ",
                  rank, " runs ", mine.build, ": all ranks need the same version");
  }
}

// Ranks that made different process sets would wait for each other or mix up their arrays.
void Job::check_process_sets() {
  std::string mine;
  for (const auto& ranks : options_.process_sets)
    mine += str(mine.empty() ? "" : " and ", "that of ", ranks_text(ranks));
  if (mine.empty()) mine = "none";
  const auto bytes = static_cast<uint64_t>(mine.size());
  std::vector<uint64_t> sizes(static_cast<size_t>(size));
  groups_[0]->describe("process sets");
  groups_[0]->all_gather(&bytes, sizes.data(), std::vector<size_t>(sizes.size(), sizeof bytes));
  const std::vector<size_t> counts(sizes.begin(), sizes.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), size_t{0}), '\0');
  groups_[0]->all_gather(mine.data(), all.data(), counts);
  std::map<std::string, std::vector<int>> ranks_by_text;
  size_t begin = 0;
  for (int r = 0; r < size; ++r) {
    const size_t count = counts[static_cast<size_t>(r)];
    ranks_by_text[all.substr(begin, count)].push_back(r);
    begin += count;
  }
  if (ranks_by_text.size() == 1) return;
  std::string given;
  for (const auto& [text, ranks] : ranks_by_text)
    given += str(given.empty() ? "" : "; ", text, " on ", ranks_text(ranks));
  fail(ErrorKind::kCommunicator, "the ranks give different process sets: ", given,
       "; all ranks must give the same ones in the same order");
}

}  // namespace mxlite::jobs
