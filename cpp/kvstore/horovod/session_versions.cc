// Compares at the start of a session what must be equal on all ranks.
#include <cstring>

#include "cpp/base/error.h"
#include "cpp/kvstore/horovod/session.h"

namespace mxlite::horovod {
namespace {

constexpr uint32_t kProtocol = 7;

}  // namespace

// All ranks must speak the same protocol, or a rank of another version would misread frames.
void Session::check_versions() {
  struct Version {
    uint32_t protocol = kProtocol;
    char build[24] = {};
    int32_t graphs = 0;
  } mine;
  mine.graphs = graphs_are_calls;
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
  for (int r = 1; r < size; ++r) {
    const int32_t theirs = all[static_cast<size_t>(r)].graphs, first = all[0].graphs;
    MX_CHECK_KIND(theirs == first, ErrorKind::kCommunicator, "MXLITE_NCCL_GRAPHS is ", theirs,
                  " on rank ", r, " and ", first, " on rank 0, the same value expected");
  }
}

}  // namespace mxlite::horovod
