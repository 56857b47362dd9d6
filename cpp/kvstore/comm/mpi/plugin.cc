// Entry point of libmxlite_mpi.so.
#include <mpi.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/hierarchical.h"
#include "cpp/kvstore/comm/mpi/mpi_communicator.h"
#include "cpp/kvstore/comm/mpi/rebuild.h"
#include "cpp/kvstore/comm/mpi/ulfm.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::mpi {
namespace {

// Time limit for MPI_Finalize after a rebuild. If ranks were lost, Open MPI may never return from
// this call.
constexpr double kEndSeconds = 5;

const char* level_name(int level) {
  return level == MPI_THREAD_SINGLE     ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                        : "MPI_THREAD_SERIALIZED";
}

World make_world_of(OwnedComm comm) {
  std::unique_ptr<Communicator> network = make_mpi_communicator(std::move(comm));
  std::vector<int> members(static_cast<size_t>(network->size()));
  std::iota(members.begin(), members.end(), 0);
  return make_hierarchical_world(std::move(network), std::move(members));
}

class Plugin final : public MpiPlugin {
 public:
  World make_world(const WorldRequest& request) override {
    initialize();
    if (request.mpi_communicator)
      return make_world_of(duplicate(*static_cast<const MPI_Comm*>(request.mpi_communicator)));
    try {
      if (request.ranks.empty()) return make_world_of(duplicate(job()));
      return make_world_of(group_of(job(), request.ranks));
    } catch (...) {
      revoke_all();  // wakes ranks that are already inside a collective
      ulfm::revoke(job());
      throw;
    }
  }

  std::string recovery_obstacle() override { return ulfm::obstacle(); }

  void rebuild(const RebuildRequest& request) override {
    initialize();
    const std::string obstacle = ulfm::obstacle();
    MX_CHECK_KIND(obstacle.empty(), ErrorKind::kNotSupported, "elastic training: ", obstacle);
    const EndAfter limit(comm_timeout() + request.start_timeout,
                         "the ranks that live have not formed a new job: one of them, on another "
                         "host, hangs, or a new process did not join");
    revoke_all();
    ulfm::revoke(job());
    OwnedComm alive = living(job());
    job_ = {};
    job_ = started_more(std::move(alive), request);
    rebuilt_ = true;
  }

  void finalize() override {
    int ended = 0;
    MX_MPI(MPI_Finalized(&ended));
    if (!initialized_here_ || ended) return;
    // Frees the communicator first. Otherwise MPI_Finalize would disconnect from all of its
    // processes, including lost processes.
    job_ = {};
    std::optional<EndAfter> limit;
    if (rebuilt_) limit.emplace(kEndSeconds, "MPI has not ended; the training has", /*code=*/0);
    MX_MPI(MPI_Finalize());
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
                  "MPI must not be started again after it was shut down in this process");
    if (!initialized) {
      MX_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level));
      initialized_here_ = true;
      check_size();
      if (!ulfm::obstacle().empty()) return;
      MX_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
      MX_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
      job_ = joined_parents();
      rebuilt_ = job_.get() != MPI_COMM_NULL;
      return;
    }
    MX_MPI(MPI_Query_thread(&level));
    MX_CHECK_KIND(level >= MPI_THREAD_SERIALIZED, ErrorKind::kCommunicator,
                  "MPI was initialized by another library with ", level_name(level),
                  "; mxlite calls MPI from a separate thread and needs MPI_THREAD_SERIALIZED (or "
                  "import mxlite.horovod and call init first)");
    check_size();
  }

  // Checks that mpirun belongs to this MPI library. Otherwise each process would train as a
  // separate job.
  void check_size() const {
    int size = 1;
    MX_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    const int64_t started = env_int("OMPI_COMM_WORLD_SIZE", size);
    MX_CHECK_KIND(size == started, ErrorKind::kCommunicator, "mpirun has started ", started,
                  " processes, but ", library_version(), " finds ", size,
                  " of them, because this mpirun belongs to another installation; use the mpirun "
                  "of this Open MPI, or set MXLITE_MPI_LIBRARY to the libmpi of this mpirun");
  }

  // Returns all processes of the job after the last rebuild.
  MPI_Comm job() const { return job_.get() == MPI_COMM_NULL ? MPI_COMM_WORLD : job_.get(); }

  static OwnedComm group_of(MPI_Comm job, const std::vector<int>& ranks) {
    int rank = 0, size = 1;
    MX_MPI(MPI_Comm_rank(job, &rank));
    MX_MPI(MPI_Comm_size(job, &size));
    for (const int r : ranks)
      MX_CHECK(r >= 0 && r < size, "init: ranks must be in [0, ", size - 1, "], as the job has ",
               size, " processes, got ", r);
    const auto place = std::find(ranks.begin(), ranks.end(), rank);
    OwnedComm group =
        split(job, place == ranks.end() ? -1 : 0, static_cast<int>(place - ranks.begin()));
    // A process that is not listed forms a job of its own, as in Horovod.
    return group.get() == MPI_COMM_NULL ? duplicate(MPI_COMM_SELF) : std::move(group);
  }

  bool initialized_here_ = false;
  bool rebuilt_ = false;
  OwnedComm job_;  // null means MPI_COMM_WORLD
};

}  // namespace
}  // namespace mxlite::mpi

extern "C" __attribute__((visibility("default"))) mxlite::MpiPlugin* mxlite_mpi_plugin() {
  static auto* plugin = new mxlite::mpi::Plugin;  // exists as long as libmpi
  return plugin;
}
