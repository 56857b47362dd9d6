#include "cpp/kvstore/comm/hierarchical.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite {
namespace {

struct Groups {
  std::unique_ptr<Communicator> local;  // ranks on this host
  std::unique_ptr<Communicator> cross;  // ranks with the same local rank on each host; null
                                        // for local ranks that some host lacks
  std::unique_ptr<Communicator> all;
  std::vector<int> members;  // ranks in the job
  bool homogeneous = true;
};

class HierarchicalCommunicator final : public Communicator {
 public:
  explicit HierarchicalCommunicator(Groups groups)
      : g_(std::move(groups)), backend_(str(g_.all->backend(), "+shm")) {}

  int rank() const override { return g_.all->rank(); }
  int size() const override { return g_.all->size(); }
  const char* backend() const override { return backend_.c_str(); }
  void describe(std::string what) override {
    g_.local->describe(what);
    if (g_.cross) g_.cross->describe(what);
    g_.all->describe(std::move(what));
  }
  void end_hung_ranks() noexcept override { g_.local->end_hung_ranks(); }
  void fail_all(const char* reason) noexcept override {
    g_.local->fail_all(reason);
    if (g_.cross) g_.cross->fail_all(reason);
    g_.all->fail_all(reason);
  }

  void all_reduce(const void* input, void* output, int64_t count, DType dtype,
                  ReduceOp op) override {
    // If a rank is lost, also notifies other hosts, because their ranks wait in other groups.
    notifying([&] { reduce_by_levels(input, output, count, dtype, op); });
  }
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    notifying([&] { g_.all->reduce_scatter(input, output, counts, dtype, op); });
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    notifying([&] { g_.all->all_gather(input, output, bytes); });
  }
  void broadcast(void* data, size_t bytes, int root) override {
    notifying([&] { g_.all->broadcast(data, bytes, root); });
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    notifying([&] { g_.all->all_to_all(input, send, output, receive); });
  }
  bool takes_gpu_memory() const override { return g_.all->takes_gpu_memory(); }
  void barrier() override {
    notifying([&] { g_.all->barrier(); });
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> network = g_.all->split(color, key);
    if (!network) return nullptr;
    std::vector<int> names(static_cast<size_t>(network->size()));
    const int mine = g_.members[static_cast<size_t>(rank())];
    network->all_gather(&mine, names.data(), std::vector<size_t>(names.size(), sizeof mine));
    return make_hierarchical_world(std::move(network), std::move(names)).communicator;
  }

 private:
  void notifying(auto&& fn) {
    try {
      fn();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCommunicator) fail_all(error.what());
      throw;
    }
  }
  void reduce_by_levels(const void* input, void* output, int64_t count, DType dtype, ReduceOp op) {
    g_.local->all_reduce(input, output, count, dtype, op);
    if (!g_.homogeneous) {
      if (g_.cross) g_.cross->all_reduce(output, output, count, dtype, op);
      return g_.local->broadcast(output, static_cast<size_t>(count) * dtype_size(dtype), 0);
    }
    // Each local rank exchanges one part with the other hosts, so that all local ranks use the
    // network.
    const int64_t ranks = g_.local->size();
    const int64_t part = (count + ranks - 1) / ranks;
    const size_t width = dtype_size(dtype);
    std::vector<size_t> bytes(static_cast<size_t>(ranks));
    for (int64_t r = 0; r < ranks; ++r)
      bytes[static_cast<size_t>(r)] =
          static_cast<size_t>(std::min(count, part * (r + 1)) - std::min(count, part * r)) * width;
    const int64_t begin = std::min(count, part * g_.local->rank());
    auto* mine = static_cast<std::byte*>(output) + static_cast<size_t>(begin) * width;
    const size_t mine_bytes = bytes[static_cast<size_t>(g_.local->rank())];
    g_.cross->all_reduce(mine, mine, static_cast<int64_t>(mine_bytes / width), dtype, op);
    g_.local->all_gather(mine, output, bytes);
  }

  Groups g_;
  const std::string backend_;
};

template <class T>
std::vector<T> gather(Communicator& group, const T& mine) {
  std::vector<T> all(static_cast<size_t>(group.size()));
  group.all_gather(&mine, all.data(), std::vector<size_t>(all.size(), sizeof mine));
  return all;
}

// PID of a process and the PID namespace in which the PID is valid.
struct Process {
  int64_t number = 0;
  uint64_t number_space = 0;
};

// `here` lists the ranks of this host. The ranks are numbers in the network's group.
std::unique_ptr<Communicator> make_local_group(Communicator& network, const std::vector<int>& here,
                                               const std::vector<int>& members) {
  const int size = static_cast<int>(here.size());
  const auto rank =
      static_cast<int>(std::find(here.begin(), here.end(), network.rank()) - here.begin());
  shm::SegmentName name;
  std::shared_ptr<shm::SharedSegment> segment;
  if (size > 1 && rank == 0)
    segment = shm::SharedSegment::create(size, shm::default_buffer_bytes(size), name);
  const std::vector<shm::SegmentName> names = gather(network, name);
  const std::vector<Process> all = gather(network, Process{getpid(), shm::pid_namespace()});
  for (size_t r = 0; r < names.size(); ++r)
    MX_CHECK_KIND(names[r].error[0] == 0, ErrorKind::kCommunicator, "rank ", members[r], ": ",
                  std::string(names[r].error, strnlen(names[r].error, sizeof names[r].error)));
  if (size == 1) return make_local_communicator();
  if (rank != 0) segment = shm::SharedSegment::open(names[static_cast<size_t>(here[0])], size);
  std::vector<int> local_names;
  bool same = true;  // whether the segment's ranks equal the ranks of the job
  for (int r = 0; r < size; ++r) {
    const auto other = static_cast<size_t>(here[static_cast<size_t>(r)]);
    local_names.push_back(members[other]);
    same = same && members[other] == r;
    // Sets the PIDs in advance. Otherwise, if a rank died before it joined the segment, the other
    // ranks would wait for it.
    if (r != rank && all[other].number_space == shm::pid_namespace())
      segment->expect(r, all[other].number, all[other].number_space);
  }
  if (same && size == network.size()) local_names.clear();
  return shm::make_communicator(std::move(segment), rank, std::move(local_names));
}

}  // namespace

std::string host_identity() {
  char name[128] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;  // boot ID: distinguishes hosts of the same name
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat memory = {};  // containers of one host may have separate shared memory
  stat("/dev/shm", &memory);
  return str(name, '/', boot, '/', memory.st_dev, '/', env_string("MXLITE_COMM_HOST", ""));
}

std::vector<std::string> gather_hosts(Communicator& group) {
  struct Name {
    char text[256] = {};
  } mine;
  std::strncpy(mine.text, host_identity().c_str(), sizeof mine.text - 1);
  std::vector<std::string> hosts;
  for (const Name& name : gather(group, mine))
    hosts.emplace_back(name.text, strnlen(name.text, sizeof name.text));
  return hosts;
}

HostLayout host_layout(const std::vector<std::string>& hosts, int rank) {
  const int size = static_cast<int>(hosts.size());
  HostLayout layout;
  std::vector<int>& here = layout.here;
  for (int r = 0; r < size; ++r)
    if (hosts[static_cast<size_t>(r)] == hosts[static_cast<size_t>(rank)]) here.push_back(r);
  Topology& t = layout.topology;
  t.local_rank = static_cast<int>(std::find(here.begin(), here.end(), rank) - here.begin());
  t.local_size = static_cast<int>(here.size());
  // Ranks with the same local rank as this rank, in rank order.
  for (int r = 0; r < size; ++r) {
    const std::string& host = hosts[static_cast<size_t>(r)];
    const auto local = std::count(hosts.begin(), hosts.begin() + r, host);
    const auto on_host = std::count(hosts.begin(), hosts.end(), host);
    t.homogeneous = t.homogeneous && on_host == t.local_size;
    if (local != t.local_rank) continue;
    if (r < rank) ++t.cross_rank;
    if (r != rank) ++t.cross_size;
  }
  return layout;
}

World make_hierarchical_world(std::unique_ptr<Communicator> network, std::vector<int> members) {
  const int size = network->size(), rank = network->rank();
  if (size == 1) return {make_local_communicator(), {}};
  network->describe("start of a group");
  const HostLayout layout = host_layout(gather_hosts(*network), rank);
  const Topology& t = layout.topology;
  std::unique_ptr<Communicator> local = make_local_group(*network, layout.here, members);
  if (t.local_size == size) return {std::move(local), t};
  const bool crosses = t.homogeneous || t.local_rank == 0;
  std::unique_ptr<Communicator> cross = network->split(crosses ? t.local_rank : -1, rank);
  Groups groups{std::move(local), std::move(cross), std::move(network), std::move(members),
                t.homogeneous};
  return {std::make_unique<HierarchicalCommunicator>(std::move(groups)), t};
}

}  // namespace mxlite
