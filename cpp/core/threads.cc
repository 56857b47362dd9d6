#include "cpp/core/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
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

constexpr int kMostThreads = 1024;

// Returns the variable's count, or 0 if the variable is not set. A list as for OpenMP, such as
// "4,2", gives its first count.
int read_thread_count(const char* name) {
  const std::string text = env_string(name, "");
  if (text.empty()) return 0;
  int count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const bool whole = rest == end || (*rest == ',' && rest + 1 != end);
  MX_CHECK(error == std::errc() && whole && count >= 1 && count <= kMostThreads,
           "environment variable ", name, " must be a count from 1 to ", kMostThreads, ", got '",
           text, "'");
  return count;
}

int default_threads() {
  for (const char* name : {"MXLITE_CPU_THREADS", "OMP_NUM_THREADS"})
    if (const int count = read_thread_count(name)) return count;
  int64_t local_ranks = 1;
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    local_ranks = std::max(local_ranks, env_int(name, 1));
  const auto count = std::max<int64_t>(1, allowed_cores() / local_ranks);
  return static_cast<int>(std::min<int64_t>(count, kMostThreads));
}

int64_t read_polls() {
  constexpr int64_t kUsual = 5000, kAlways = int64_t{30} << 30;
  std::string policy = env_string("OMP_WAIT_POLICY", "");
  std::ranges::transform(policy, policy.begin(), [](unsigned char c) { return std::tolower(c); });
  MX_CHECK(policy.empty() || policy == "active" || policy == "passive",
           "environment variable OMP_WAIT_POLICY must be active or passive, got '", policy, "'");
  const std::string text = env_string("GOMP_SPINCOUNT", "");
  if (text == "infinite" || text == "infinity") return kAlways;
  const int64_t of_policy = policy.empty() ? kUsual : policy == "active" ? kAlways : 0;
  const int64_t polls = env_int("GOMP_SPINCOUNT", of_policy);
  MX_CHECK(polls >= 0, "environment variable GOMP_SPINCOUNT must be a count, got '", text, "'");
  return polls;
}

struct Settings {
  std::atomic<int> threads{default_threads()};
  const int64_t polls = read_polls();
};

// Reads all variables, so that an impossible value is found when the package is imported.
Settings& settings() {
  static Settings all;
  return all;
}

}  // namespace

int threads_for(double work, int64_t parts) {
  const double worthwhile = std::min(work / kWorkPerThread, static_cast<double>(parts));
  return static_cast<int>(std::clamp(worthwhile, 1.0, static_cast<double>(cpu_threads())));
}

int64_t thread_polls() { return settings().polls; }

int cpu_threads() { return settings().threads.load(std::memory_order_relaxed); }

void set_cpu_threads(int n) {
  MX_CHECK(n > 0, "the thread count must be positive, got ", n);
  MX_CHECK(n <= kMostThreads, "the thread count must be at most ", kMostThreads, ", got ", n);
  settings().threads.store(n, std::memory_order_relaxed);
}

}  // namespace mxlite
