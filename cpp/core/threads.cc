#include "cpp/core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <string>

#include "cpp/base/env.h"
#include "cpp/base/error.h"

namespace mxlite {
namespace {

int allowed_cores() {
  cpu_set_t mask;
  int cores = 1;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = CPU_COUNT(&mask);
  std::ifstream file("/sys/fs/cgroup/cpu.max");  // contains "max 100000" or "200000 100000"
  std::string quota;
  double period = 0;
  if (file >> quota >> period && quota != "max" && period > 0)
    cores = std::min(cores, static_cast<int>(std::ceil(std::stod(quota) / period)));
  return std::max(1, cores);
}

int default_threads() {
  for (const char* name : {"MXLITE_CPU_THREADS", "OMP_NUM_THREADS"}) {
    const int64_t n = env_int(name, 0);
    MX_CHECK(n >= 0, "environment variable ", name, " must be a positive count, got ", n);
    if (n > 0) return static_cast<int>(n);
  }
  int64_t local_ranks = 1;
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    local_ranks = std::max(local_ranks, env_int(name, 1));
  return static_cast<int>(std::max<int64_t>(1, allowed_cores() / local_ranks));
}

std::atomic<int>& count() {
  static std::atomic<int> threads{default_threads()};
  return threads;
}

int64_t read_polls() {
  const std::string policy = env_string("OMP_WAIT_POLICY", "");
  MX_CHECK(policy.empty() || policy == "active" || policy == "passive" || policy == "ACTIVE" ||
               policy == "PASSIVE",
           "environment variable OMP_WAIT_POLICY must be active or passive, got '", policy, "'");
  constexpr int64_t kUsual = 5000, kAlways = int64_t{30} << 30;
  const bool active = policy == "active" || policy == "ACTIVE";
  const int64_t polls = env_int("GOMP_SPINCOUNT", policy.empty() ? kUsual : active ? kAlways : 0);
  MX_CHECK(polls >= 0, "environment variable GOMP_SPINCOUNT must be a count, got ", polls);
  return polls;
}

}  // namespace

int threads_for(double work, int64_t parts) {
  const double worthwhile = std::min(work / kWorkPerThread, static_cast<double>(parts));
  return static_cast<int>(std::clamp(worthwhile, 1.0, static_cast<double>(cpu_threads())));
}

int64_t thread_polls() {
  static const int64_t polls = read_polls();
  return polls;
}

int cpu_threads() { return count().load(std::memory_order_relaxed); }

void set_cpu_threads(int n) {
  MX_CHECK(n > 0, "the thread count must be positive, got ", n);
  count().store(n, std::memory_order_relaxed);
}

}  // namespace mxlite
