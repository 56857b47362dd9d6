// Entry of libmxlite_mpi.so.
#include <mpi.h>

#include <algorithm>

#include "cpp/kvstore/mpi/hierarchical.h"
#include "cpp/kvstore/world.h"

namespace mxlite::mpi {
namespace {

const char* level_name(int level) {
  return level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                        : "MPI_THREAD_SERIALIZED";
}

class Plugin final : public MpiPlugin {
 public:
  World make_world(const WorldRequest& request) override {
    initialize();
    if (request.mpi_communicator)
      return make_world_of(duplicate(*static_cast<const MPI_Comm*>(request.mpi_communicator)));
    if (request.ranks.empty()) return make_world_of(duplicate(MPI_COMM_WORLD));
    return make_world_of(group_of(request.ranks));
  }

  void finalize() override {
    int ended = 0;
    MX_MPI(MPI_Finalized(&ended));
    if (initialized_here_ && !ended) MX_MPI(MPI_Finalize());
  }

  bool threads_supported() const override {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_MULTIPLE;
  }

  std::string library_version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    return {text, static_cast<size_t>(std::find(text, text + length, ',') - text)};
  }

 private:
  void initialize() {
    int initialized = 0, ended = 0, level = MPI_THREAD_SINGLE;
    MX_MPI(MPI_Initialized(&initialized));
    MX_MPI(MPI_Finalized(&ended));
    MX_CHECK_KIND(!ended, ErrorKind::kCommunicator,
                  "MPI was shut down in this process and cannot be started again");
    if (!initialized) {
      MX_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
      initialized_here_ = true;
      return;
    }
    MX_MPI(MPI_Query_thread(&level));
    MX_CHECK_KIND(level >= MPI_THREAD_SERIALIZED, ErrorKind::kCommunicator,
                  "MPI was initialized by somebody else with ", level_name(level),
                  "; mxlite calls it from a thread of its own and needs MPI_THREAD_SERIALIZED (or "
                  "import mxlite.horovod and call init first)");
  }

  static OwnedComm group_of(const std::vector<int>& ranks) {
    int rank = 0, size = 1;
    MX_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MX_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (const int r : ranks)
      MX_CHECK(r >= 0 && r < size, "init: rank ", r, " given, the job has ", size, " processes");
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    OwnedComm group = split(MPI_COMM_WORLD, place == ranks.end() ? -1 : 0,
                            static_cast<int>(place - ranks.begin()));
    // As Horovod: a process that is not asked for stays alone.
    return group.get() == MPI_COMM_NULL ? duplicate(MPI_COMM_SELF) : std::move(group);
  }

  bool initialized_here_ = false;
};

}  // namespace
}  // namespace mxlite::mpi

extern "C" __attribute__((visibility("default"))) mxlite::MpiPlugin* mxlite_mpi_plugin() {
  static auto* plugin = new mxlite::mpi::Plugin;  // lives as long as libmpi
  return plugin;
}
