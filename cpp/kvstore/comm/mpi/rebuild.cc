#include "cpp/kvstore/comm/mpi/rebuild.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cpp/kvstore/comm/mpi/ulfm.h"

namespace mxlite::mpi {
namespace {

constexpr int kAttempts = 100;  // each failed attempt loses at least one rank

OwnedComm returning(MPI_Comm comm) {
  OwnedComm owned(comm);
  MX_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
  return owned;
}

class Info {
 public:
  Info() { MX_MPI(MPI_Info_create(&info_)); }
  ~Info() { MPI_Info_free(&info_); }
  Info& operator=(Info&&) = delete;  // neither copied nor moved
  void set(const char* key, const std::string& value) {
    if (!value.empty()) MX_MPI(MPI_Info_set(info_, key, value.c_str()));
  }
  MPI_Info get() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

// Starts `count` processes with the command of rank 0. Collective.
OwnedComm spawn(MPI_Comm job, int count, const RebuildRequest& request) {
  std::vector<char*> arguments;
  for (size_t i = 1; i < request.command.size(); ++i)
    arguments.push_back(const_cast<char*>(request.command[i].c_str()));
  arguments.push_back(nullptr);
  Info info;
  info.set("wdir", request.folder);
  info.set("PMIX_MAPBY", "slot:OVERSUBSCRIBE");
  info.set("PMIX_ADD_HOST", request.hosts);
  MPI_Comm children = MPI_COMM_NULL;
  MX_MPI(MPI_Comm_spawn(request.command.empty() ? "" : request.command[0].c_str(), arguments.data(),
                        count, info.get(), 0, job, &children, MPI_ERRCODES_IGNORE));
  return returning(children);
}

}  // namespace

OwnedComm living(MPI_Comm job) {
  OwnedComm held;
  for (int i = 0; i < kAttempts; ++i) {
    OwnedComm smaller = returning(ulfm::shrink(job));
    // Retries if another rank has died in the meantime.
    if (ulfm::agree(smaller.get(), true)) return smaller;
    held = std::move(smaller);
    job = held.get();
  }
  fail(ErrorKind::kCommunicator, "elastic training: ranks died in each of ", kAttempts,
       " attempts to form a new job");
}

OwnedComm started_more(OwnedComm job, const RebuildRequest& request) {
  int rank = 0, size = 0;
  MX_MPI(MPI_Comm_rank(job.get(), &rank));
  MX_MPI(MPI_Comm_size(job.get(), &size));
  int count = request.command.empty() ? 0 : std::max(0, request.processes - size);
  if (MPI_Bcast(&count, 1, MPI_INT, 0, job.get()) != MPI_SUCCESS) count = 0;
  // All ranks agree on whether to spawn processes, because spawning is collective.
  if (!ulfm::agree(job.get(), count > 0)) return job;
  OwnedComm children, merged;
  std::string why;
  try {
    children = spawn(job.get(), count, request);
    MPI_Comm all = MPI_COMM_NULL;
    MX_MPI(MPI_Intercomm_merge(children.get(), /*high=*/0, &all));
    merged = returning(all);
  } catch (const Error& error) {
    why = error.what();
  }
  if (ulfm::agree(job.get(), why.empty())) return merged;
  if (rank == 0)
    std::fprintf(stderr, "mxlite: elastic training: %d new processes could not join: %s\n", count,
                 why.empty() ? "a rank was lost" : why.c_str());
  ulfm::revoke(merged.get());
  return job;
}

OwnedComm joined_parents() {
  MPI_Comm parents = MPI_COMM_NULL;
  MX_MPI(MPI_Comm_get_parent(&parents));
  if (parents == MPI_COMM_NULL) return {};
  const OwnedComm owned = returning(parents);
  MPI_Comm all = MPI_COMM_NULL;
  MX_MPI(MPI_Intercomm_merge(parents, /*high=*/1, &all));
  return returning(all);
}

EndAfter::EndAfter(double seconds, std::string why, int code) {
  const auto limit = std::chrono::duration<double>(seconds);
  thread_ = std::thread([this, limit, code, why = std::move(why)] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return done_; })) return;
    std::fprintf(stderr, "mxlite: elastic training: after %g s %s\n", limit.count(), why.c_str());
    std::fflush(nullptr);
    std::_Exit(code);
  });
}

EndAfter::~EndAfter() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace mxlite::mpi
