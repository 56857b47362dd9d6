#include "cpp/kvstore/comm/device_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/kvstore/comm/device_hierarchy.h"
#include "cpp/kvstore/comm/hierarchical.h"

namespace mxlite {
namespace {

std::atomic<DeviceBackend*> the_backend{nullptr};

// Properties of a rank that it sends to the other ranks before they join.
struct Introduction {
  int32_t version = 0, devices = 0;
  int32_t connects_hosts = 1;  // value of MXLITE_NCCL_BETWEEN_HOSTS
  int32_t network_takes_gpu_memory = 0;
  char host[64] = {};
  char boot[40] = {};  // boot ID: distinguishes hosts of the same name
  char gpu[64] = {};
  char problem[256] = {};
};

struct Outcome {
  char problem[256] = {};
};

struct SharedId {
  DeviceBackend::UniqueId id;
  char problem[256] = {};
};

template <size_t N>
void put(char (&to)[N], const std::string& text) {
  std::strncpy(to, text.c_str(), N - 1);
}

template <class T>
std::vector<T> gather(Communicator& processes, const T& mine) {
  std::vector<T> all(static_cast<size_t>(processes.size()));
  processes.all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  return all;
}

// Runs fn. If fn throws, writes the error text to `problem`. This rank then sends `problem` to the
// other ranks.
template <size_t N, class Fn>
void attempt(char (&problem)[N], Fn&& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    put(problem, *error.what() ? error.what() : "unknown error");
  }
}

Introduction introduce(const Communicator& processes, int device) {
  Introduction mine;
  mine.network_takes_gpu_memory = processes.takes_gpu_memory();
  attempt(mine.problem, [&] {
    gethostname(mine.host, sizeof mine.host - 1);
    std::string boot;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
    put(mine.boot, boot);
    DeviceBackend* const backend = device_backend();
    MX_CHECK_KIND(backend, ErrorKind::kNotSupported, "nccl: the CUDA plug-in must contain NCCL");
    mine.version = backend->version();
    mine.connects_hosts = env_int("MXLITE_NCCL_BETWEEN_HOSTS", 1) != 0;
    mine.devices = require_accelerator("nccl", device).count();
    put(mine.gpu, backend->physical_id(device));
  });
  return mine;
}

std::string version_text(int version) {
  return str(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

// Returns the first problem that any rank reports, or an empty text.
template <class T>
std::string first_problem(std::span<const T> all, std::span<const int> members) {
  for (size_t r = 0; r < all.size(); ++r)
    if (*all[r].problem) return str("nccl: rank ", members[r], ": ", all[r].problem);
  return {};
}

std::string problem_of(std::span<const Introduction> all, std::span<const int> members) {
  std::string problem = first_problem(all, members);
  if (!problem.empty()) return problem;
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].version != all[0].version)
      return str("nccl: rank ", members[r], " has NCCL ", version_text(all[r].version), ", rank ",
                 members[0], " has NCCL ", version_text(all[0].version),
                 ": all ranks need the same version");
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r].connects_hosts != all[0].connects_hosts)
      return str("nccl: MXLITE_NCCL_BETWEEN_HOSTS must be the same on all ranks, got ",
                 all[r].connects_hosts, " on rank ", members[r], " and ", all[0].connects_hosts,
                 " on rank ", members[0]);
  std::map<std::pair<std::string, std::string>, size_t> users;
  for (size_t r = 0; r < all.size(); ++r) {
    const auto [first, fresh] =
        users.try_emplace({std::string(all[r].host) + all[r].boot, all[r].gpu}, r);
    if (fresh) continue;
    size_t here = 0;
    for (const Introduction& other : all)
      here += !std::strcmp(other.host, all[r].host) && !std::strcmp(other.boot, all[r].boot);
    return str("nccl: ranks ", members[first->second], " and ", members[r], " use the same GPU (",
               all[r].gpu, " of host ", all[r].host, "), every process needs its own; ", here,
               " processes of this host take part, rank ", members[r], " sees ", all[r].devices,
               all[r].devices == 1 ? " GPU" : " GPUs",
               ". Give mx.gpu(local_rank), start fewer processes, or set MXLITE_NCCL=0 to send "
               "arrays through host memory");
  }
  return {};
}

// Creates one NCCL communicator for all ranks of `processes`. Collective.
std::unique_ptr<DeviceCommunicator> connect(Communicator& processes, const DeviceRank& me,
                                            std::string& problem) {
  SharedId shared;
  DeviceBackend& backend = *device_backend();
  if (me.rank == 0) attempt(shared.problem, [&] { shared.id = backend.make_id(); });
  processes.broadcast(&shared, sizeof shared, 0);
  problem = first_problem(std::span<const SharedId>(&shared, 1), me.members);
  if (!problem.empty()) return nullptr;
  Outcome mine;
  std::unique_ptr<DeviceCommunicator> group;
  attempt(mine.problem, [&] { group = backend.join(shared.id, me); });
  const std::vector<Outcome> outcomes = gather(processes, mine);
  problem = first_problem(std::span<const Outcome>(outcomes), me.members);
  if (problem.empty()) return group;
  if (group) group->fail_all(problem.c_str());
  return nullptr;
}

// Creates an NCCL communicator for each host. The hosts are connected by `processes`. Collective.
std::unique_ptr<DeviceCommunicator> connect_by_levels(Communicator& processes, const DeviceRank& me,
                                                      const HostLayout& layout,
                                                      bool network_takes_gpu_memory,
                                                      std::string& problem) {
  const Topology& t = layout.topology;
  DeviceHierarchy hierarchy;
  hierarchy.even = t.homogeneous;
  if (network_takes_gpu_memory) hierarchy.direct = Device{DeviceType::kCUDA, me.device};
  hierarchy.check_others = me.check_others;
  const auto host = processes.split(layout.here[0], me.rank);
  const bool crosses = t.homogeneous || t.local_rank == 0;
  hierarchy.cross = processes.split(crosses ? t.local_rank : -1, me.rank);
  hierarchy.all = processes.split(0, me.rank);
  std::vector<int> members;
  for (const int r : layout.here) members.push_back(me.members[static_cast<size_t>(r)]);
  const DeviceRank local{t.local_rank, t.local_size, me.device, members, me.check_others};
  Outcome mine;
  attempt(mine.problem, [&] {
    hierarchy.gpus = connect(*host, local, problem);
    put(mine.problem, problem);
  });
  problem = first_problem(std::span<const Outcome>(gather(processes, mine)), me.members);
  if (problem.empty()) return make_device_hierarchy(std::move(hierarchy));
  if (hierarchy.gpus) hierarchy.gpus->fail_all(problem.c_str());
  return nullptr;
}

}  // namespace

void set_device_backend(DeviceBackend* backend) { the_backend = backend; }

DeviceBackend* device_backend() { return accelerator() ? the_backend.load() : nullptr; }

bool travels_through_nccl(Device device, DType dtype) {
  static const bool wanted = env_int("MXLITE_NCCL", 1) != 0;
  if (device.type != DeviceType::kCUDA || !wanted) return false;
  // NCCL does not support these dtypes.
  if (dtype == DType::kInt16 || dtype == DType::kUInt16) return false;
  return device_backend() != nullptr;
}

std::unique_ptr<DeviceCommunicator> make_device_communicator(Communicator& processes,
                                                             const DeviceRank& me,
                                                             std::string& problem) {
  processes.describe("start of NCCL");
  const std::vector<Introduction> all = gather(processes, introduce(processes, me.device));
  problem = problem_of(all, me.members);
  if (!problem.empty()) return nullptr;
  if (!all[0].connects_hosts) {
    const HostLayout layout = host_layout(gather_hosts(processes), me.rank);
    const bool takes_gpu_memory = std::all_of(all.begin(), all.end(), [](const Introduction& r) {
      return r.network_takes_gpu_memory != 0;
    });
    if (layout.topology.local_size < me.size)
      return connect_by_levels(processes, me, layout, takes_gpu_memory, problem);
  }
  return connect(processes, me, problem);
}

}  // namespace mxlite
