// Messages between the processes of a job and its scheduler. The processes register at the
// scheduler.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/link/frame.h"
#include "cpp/kvstore/comm/link/message.h"

namespace mxlite::members {

enum class Role : uint8_t { kScheduler, kServer, kWorker };
constexpr Role last_enumerator(Role) { return Role::kWorker; }
const char* role_name(Role role);

// The names that error texts use for the processes of a job. Each kind of job has its own names.
struct JobKind {
  const char* source;             // start of error texts
  const char* scheduler;          // "the scheduler"
  const char* worker;             // "worker"
  const char* address_variables;  // environment variables with the scheduler's address
  const char* token_variable;
  const char* timeout_variable;
  const char* name_of(Role role) const { return role == Role::kWorker ? worker : role_name(role); }
};

// First frame on a connection, sent by the process that connects.
struct Hello {
  std::string version;
  Role role = Role::kWorker;
  int32_t rank = -1;
  uint32_t incarnation = 0;
  uint64_t group = 0;  // id of the worker group that will use the connection, or 0
  auto fields() { return std::tie(version, role, rank, incarnation, group); }
};

// Answer to a hello. Its content has a meaning only if a server sends the answer.
struct Welcome {
  bool snapshots = false;  // whether the server stores snapshots
  auto fields() { return std::tie(snapshots); }
};

struct Registration {
  Role role = Role::kWorker;
  int32_t rank = -1;  // Requested rank; -1 for any.
  std::string host;   // name of the host, for the text of errors
  int64_t process = 0;
  std::string address;  // "host:port" at which the process accepts connections
  bool snapshots = false;
  int32_t num_workers = 0, num_servers = 0;
  double timeout = 60;  // limit in seconds for the process's waits for other processes
  double silence = 5;   // seconds without a heartbeat after which the process counts as lost
  auto fields() {
    return std::tie(role, rank, host, process, address, snapshots, num_workers, num_servers,
                    timeout, silence);
  }
  std::string where() const { return str("host ", host, ", process ", process); }
  // Clamps the values to the ranges that the scheduler accepts.
  void clamp() {
    host.resize(std::min(host.size(), kMostHostBytes));
    timeout = std::clamp(timeout, kLeastSeconds, kMostSeconds);
    silence = std::clamp(silence, kLeastSeconds, kMostSeconds);
  }
  void check() const {
    for (const double seconds : {timeout, silence})
      MX_CHECK_KIND(seconds >= kLeastSeconds && seconds <= kMostSeconds, ErrorKind::kCommunicator,
                    kFrameBody, " must contain a time from ", kLeastSeconds, " to ", kMostSeconds,
                    " s, got ", seconds);
  }
  static constexpr double kLeastSeconds = 1e-3, kMostSeconds = 1e7;
  static constexpr size_t kMostHostBytes = 128;
};

struct Registered {
  int32_t rank = 0;
  uint32_t epoch = 0;
  uint32_t incarnation = 0;
  bool rejoined = false;  // whether the process replaces a lost process
  auto fields() { return std::tie(rank, epoch, incarnation, rejoined); }
};

struct Heartbeat {
  uint64_t state_version = 0;
  std::string progress;  // current action for errors: "push of 'fc1_weight', step 12"
  auto fields() { return std::tie(state_version, progress); }
};

enum class MemberStatus : uint8_t { kMissing, kAlive, kLost, kLeft };
constexpr MemberStatus last_enumerator(MemberStatus) { return MemberStatus::kLeft; }

struct MemberState {
  MemberStatus status = MemberStatus::kMissing;
  uint32_t incarnation = 0;  // incremented when a process replaces another process of this rank
  std::string address;       // address at which the process accepts connections
  std::string why;           // the reason why the process was lost
  auto fields() { return std::tie(status, incarnation, address, why); }
  bool operator==(const MemberState&) const = default;
};

// State of the job. The scheduler sends it when all processes have registered and whenever it
// changes.
struct JobState {
  uint64_t version = 0;
  bool running = false;  // whether all processes have registered
  bool ended = false;
  std::string failure;  // the reason why the whole job failed
  std::vector<MemberState> workers, servers;
  auto fields() { return std::tie(version, running, ended, failure, workers, servers); }
  std::vector<MemberState>& members(Role role) { return role == Role::kServer ? servers : workers; }
};

// Change of one member between the states with the numbers `version` - 1 and `version`.
struct MemberChange {
  uint64_t version = 0;
  Role role = Role::kWorker;
  uint32_t rank = 0;
  MemberState state;
  auto fields() { return std::tie(version, role, rank, state); }
};

// Failure of a group of workers.
struct GroupFailure {
  uint64_t group = 0;
  std::string why;
  auto fields() { return std::tie(group, why); }
};

// Answer to a request. It is either an error, or a body and elements.
struct Reply {
  std::optional<Error> error;
  Body body;
  Buffer data;
};
Reply error_reply(ErrorKind kind, const std::string& text);
Frame reply_frame(uint64_t request, Reply reply);
Reply reply_of(Frame frame);

}  // namespace mxlite::members
