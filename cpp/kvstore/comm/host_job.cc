#include "cpp/kvstore/comm/host_job.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/kvstore/comm/hierarchical.h"
#include "cpp/kvstore/comm/shm/shm_communicator.h"
#include "cpp/kvstore/comm/tcp/rendezvous.h"
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"

namespace mxlite {
namespace {

using tcp::kMostProcesses;

constexpr uint64_t kMostBufferBytes = uint64_t{1} << 30;

int64_t job_variable(const char* name, int64_t least, int64_t most) {
  const int64_t value = env_int(name, -1);
  MX_CHECK(value >= least && value <= most, "environment variable ", name,
           " must be a number from ", least, " to ", most, ", got '", env_string(name, ""),
           "'; python -m mxlite.tools.launch sets it");
  return value;
}

shm::SegmentName read_memory_name() {
  const std::string text = env_string(kJobMemory, "");
  const size_t colon = text.rfind(':');
  shm::SegmentName name;
  uint64_t bytes = 0;
  bool valid = colon != std::string::npos && colon > 1 && colon < sizeof name.name &&
               text[0] == '/' && text.find('/', 1) == std::string::npos;
  if (valid) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, bytes);
    valid = read.ec == std::errc() && read.ptr == end && bytes > 0 && bytes <= kMostBufferBytes;
  }
  MX_CHECK(valid, "environment variable ", kJobMemory, " must be '/name:bytes', got '",
           text.substr(0, 100), "'; python -m mxlite.tools.launch sets it");
  std::memcpy(name.name, text.data(), colon);
  name.buffer_bytes = bytes;
  return name;
}

// Returns the address to listen on. An empty text means the interface with the route to the
// rendezvous.
std::string listen_host() {
  const std::string host = env_string("DMLC_NODE_HOST", "");
  const std::string interface = env_string("DMLC_INTERFACE", "");
  return host.empty() && !interface.empty() ? interface_address(interface) : host;
}

bool spans_hosts() { return !env_string(kJobAddress, "").empty(); }

std::unique_ptr<Communicator> join_through_tcp(int rank, int size) {
  tcp::JobPlace place;
  place.rendezvous =
      address_from_text("environment variable MXLITE_JOB_ADDRESS", env_string(kJobAddress, ""));
  place.token = env_string(kJobToken, "");
  MX_CHECK(!place.token.empty(), "environment variable ", kJobToken,
           " must be set in a job over several hosts; python -m mxlite.tools.launch sets it");
  place.rank = rank;
  place.size = size;
  place.listen_host = listen_host();
  const std::string label = env_string("MXLITE_COMM_HOST", "");
  place.host = label.empty() ? host_name() : label;
  static const auto job = std::make_shared<tcp::Job>(place);
  // Tells the other processes that this process ends normally.
  std::atexit([] { job->leave(); });
  return tcp::make_communicator(job);
}

std::unique_ptr<Communicator> join() {
  const int size = host_job_size();
  const auto rank = static_cast<int>(job_variable(kJobRank, 0, size - 1));
  if (spans_hosts()) return join_through_tcp(rank, size);
  const shm::SegmentName name = read_memory_name();
  auto job = shm::make_communicator(shm::SharedSegment::open(name, size), rank);
  if (rank == 0) shm_unlink(name.name);  // all processes have joined
  return job;
}

// Returns the group of all processes. All other groups are split from this group. It exists until
// the process ends.
Communicator& whole_job() {
  static Communicator& job = *join().release();
  return job;
}

}  // namespace

JobMemory::JobMemory(int processes) {
  MX_CHECK(processes > 0 && processes <= kMostProcesses, "a job must have 1 to ", kMostProcesses,
           " processes, got ", processes);
  shm::SegmentName name;
  segment_ = shm::SharedSegment::create(processes, shm::default_buffer_bytes(processes), name);
  MX_CHECK_KIND(segment_, ErrorKind::kCommunicator, name.error);
  text_ = str(name.name, ":", name.buffer_bytes);
}

JobMemory::~JobMemory() = default;

int host_job_size() {
  if (env_string(kJobSize, "").empty()) return 1;
  return static_cast<int>(job_variable(kJobSize, 1, kMostProcesses));
}

World make_host_job_world(const WorldRequest& request) {
  MX_CHECK_KIND(!request.mpi_communicator, ErrorKind::kCommunicator,
                "init: comm must not be a communicator of MPI, as this job runs without MPI");
  const int size = host_job_size();
  for (const int r : request.ranks)
    MX_CHECK(r >= 0 && r < size, "init: ranks must be in [0, ", size - 1, "], as the job has ",
             size, " processes, got ", r);
  if (size == 1) return {make_local_communicator(), {}};
  Communicator& job = whole_job();
  int color = 0, key = job.rank();
  if (!request.ranks.empty()) {
    const auto place = std::find(request.ranks.begin(), request.ranks.end(), job.rank());
    color = place == request.ranks.end() ? -1 : 0;
    key = static_cast<int>(place - request.ranks.begin());
  }
  job.describe("init");
  std::unique_ptr<Communicator> group = job.split(color, key);
  // A process that is not listed forms a job of its own, as in Horovod.
  if (!group) return {make_local_communicator(), {}};
  if (spans_hosts()) {
    std::vector<int> members(static_cast<size_t>(group->size()));
    const int mine = job.rank();
    group->all_gather(&mine, members.data(), std::vector<size_t>(members.size(), sizeof mine));
    return make_hierarchical_world(std::move(group), std::move(members));
  }
  const Topology topology{group->rank(), group->size(), 0, 1, true};
  return {std::move(group), topology};
}

}  // namespace mxlite
