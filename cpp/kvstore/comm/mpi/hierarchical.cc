#include "cpp/kvstore/comm/mpi/hierarchical.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"

namespace mxlite::mpi {
namespace {

struct Groups {
  std::unique_ptr<Communicator> local;  // ranks of this host
  std::unique_ptr<Communicator> cross;  // same local rank on each host; on uneven hosts only the
                                        // first ranks have one, the others null
  std::unique_ptr<Communicator> all;
  OwnedComm comm;  // all ranks, for split
  Topology topology;
};

class HierarchicalCommunicator final : public Communicator {
 public:
  explicit HierarchicalCommunicator(Groups groups) : g_(std::move(groups)) {}

  int rank() const override { return g_.all->rank(); }
  int size() const override { return g_.all->size(); }
  const char* backend() const override { return "mpi+shm"; }
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
    g_.local->all_reduce(input, output, count, dtype, op);
    if (!g_.topology.homogeneous) {
      if (g_.cross) g_.cross->all_reduce(output, output, count, dtype, op);
      return g_.local->broadcast(output, static_cast<size_t>(count) * dtype_size(dtype), 0);
    }
    // Each local rank sends one part to the other hosts, so that all of them use the network.
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
  void reduce_scatter(const void* input, void* output, std::span<const int64_t> counts, DType dtype,
                      ReduceOp op) override {
    g_.all->reduce_scatter(input, output, counts, dtype, op);
  }
  void all_gather(const void* input, void* output, std::span<const size_t> bytes) override {
    g_.all->all_gather(input, output, bytes);
  }
  void broadcast(void* data, size_t bytes, int root) override {
    g_.all->broadcast(data, bytes, root);
  }
  void all_to_all(const void* input, std::span<const size_t> send, void* output,
                  std::span<const size_t> receive) override {
    g_.all->all_to_all(input, send, output, receive);
  }
  void barrier() override { g_.all->barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    OwnedComm part = mpi::split(g_.comm.get(), color, key);
    if (part.get() == MPI_COMM_NULL) return nullptr;
    return make_world_of(std::move(part)).communicator;
  }

 private:
  Groups g_;
};

// Finds ranks that can share memory; MXLITE_COMM_HOST separates ranks of one host for tests.
OwnedComm split_by_host(MPI_Comm comm, int rank) {
  MPI_Comm host = MPI_COMM_NULL;
  MX_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host));
  OwnedComm owned(host);
  const std::string name = env_string("MXLITE_COMM_HOST", "");
  const auto color = static_cast<int>(std::hash<std::string>()(name) & 0x7fffffff);
  return split(owned.get(), color, rank);
}

std::unique_ptr<Communicator> make_local_group(MPI_Comm host) {
  int rank = 0, size = 1;
  MX_MPI(MPI_Comm_rank(host, &rank));
  MX_MPI(MPI_Comm_size(host, &size));
  if (size == 1) return make_local_communicator();
  shm::SegmentName name;
  std::shared_ptr<shm::SharedSegment> segment;
  if (rank == 0) segment = shm::SharedSegment::create(size, shm::default_buffer_bytes(size), name);
  MX_MPI(MPI_Bcast(&name, sizeof name, MPI_BYTE, 0, host));
  if (rank != 0) segment = shm::SharedSegment::open(name, size);
  MX_CHECK_KIND(segment, ErrorKind::kCommunicator, name.error);
  // Without this check a rank that died before it arrived would be waited for.
  struct Process {
    int64_t number;
    uint64_t number_space;
  };
  const Process mine{getpid(), shm::pid_namespace()};
  std::vector<Process> all(static_cast<size_t>(size));
  MX_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, host));
  for (int r = 0; r < size; ++r) {
    const Process& p = all[static_cast<size_t>(r)];
    if (r != rank && p.number_space == mine.number_space)
      segment->expect(r, p.number, p.number_space);
  }
  return shm::make_communicator(std::move(segment), rank);
}

}  // namespace

World make_world_of(OwnedComm comm) {
  int rank = 0, size = 1;
  MX_MPI(MPI_Comm_rank(comm.get(), &rank));
  MX_MPI(MPI_Comm_size(comm.get(), &size));
  const OwnedComm host = split_by_host(comm.get(), rank);
  Groups g;
  Topology& t = g.topology;
  MX_MPI(MPI_Comm_rank(host.get(), &t.local_rank));
  MX_MPI(MPI_Comm_size(host.get(), &t.local_size));
  OwnedComm cross = split(comm.get(), t.local_rank, rank);
  MX_MPI(MPI_Comm_rank(cross.get(), &t.cross_rank));
  MX_MPI(MPI_Comm_size(cross.get(), &t.cross_size));
  int extremes[2] = {t.local_size, -t.local_size};
  MX_MPI(MPI_Allreduce(MPI_IN_PLACE, extremes, 2, MPI_INT, MPI_MAX, comm.get()));
  t.homogeneous = extremes[0] == -extremes[1];
  g.local = make_local_group(host.get());
  if (t.local_size == size) return {std::move(g.local), t};
  if (t.homogeneous || t.local_rank == 0) g.cross = make_mpi_communicator(std::move(cross));
  g.all = make_mpi_communicator(duplicate(comm.get()));
  g.comm = std::move(comm);
  const Topology topology = t;
  return {std::make_unique<HierarchicalCommunicator>(std::move(g)), topology};
}

}  // namespace mxlite::mpi
