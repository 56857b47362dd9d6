// Bodies of frames. Reading one throws an Error if it does not match its type.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cpp/core/dtype.h"
#include "cpp/kvstore/comm/frame_bytes.h"
#include "cpp/kvstore/server/frame.h"
#include "cpp/kvstore/server/options.h"

namespace mxlite::server {

using Body = std::vector<std::byte>;
// Names the parsed bytes in errors.
inline constexpr const char* kFrameBody = "parameter server: the body of a frame";

struct Hello {
  std::string version;
  Role role = Role::kWorker;
  int32_t rank = -1;
  uint32_t incarnation = 0;
};

// Greeting of a server to a worker that has sent hello; other processes ignore it.
struct Welcome {
  bool snapshots = false;
};

struct Registration {
  Role role = Role::kWorker;
  int32_t rank = -1;  // Requested rank; -1 for any.
  std::string host;
  int64_t process = 0;
  std::string address;  // address of a server
  bool snapshots = false;
  int32_t num_workers = 0, num_servers = 0;
};

struct Registered {
  int32_t rank = 0;
  uint32_t epoch = 0;
  uint32_t incarnation = 0;
  bool rejoined = false;  // replaces a process that was lost
};

struct Heartbeat {
  uint64_t state_version = 0;
  std::string progress;  // "push of 'fc1_weight', step 12"
};

enum class MemberStatus : uint8_t { kMissing, kAlive, kLost, kLeft };

struct MemberState {
  MemberStatus status = MemberStatus::kMissing;
  uint32_t incarnation = 0;  // number of processes that had this rank so far
  std::string address;       // address of a server
};

// State of the job in the scheduler; sent whenever it changes.
struct JobState {
  uint64_t version = 0;
  bool running = false;  // all processes have registered
  bool ended = false;
  std::string failure;  // failure of the whole job
  std::vector<MemberState> workers, servers;
};

struct PlaceRequest {
  std::vector<std::string> keys;
  std::vector<int64_t> bytes;
  std::vector<std::string> specs;  // "float32(2, 3)"
  bool settled = false;            // all workers have asked; their specs are compared
};

// One part of an array on a server.
struct PartSpec {
  std::string key;
  uint32_t part = 0;
  DType dtype = DType::kFloat32;
  int64_t count = 0;      // elements
  int64_t row_size = 1;   // elements of a row
  int64_t first_row = 0;  // position in the array
  int64_t rows() const { return row_size > 0 ? count / row_size : 0; }
  size_t bytes() const { return static_cast<size_t>(count) * dtype_size(dtype); }
};

enum class PushForm : uint8_t { kDense, kRows, kTwoBit, kOneBit };

struct PushHeader {
  std::string key;
  uint32_t part = 0;
  uint64_t step = 0;  // step of this worker and key, from 1
  PushForm form = PushForm::kDense;
  DType dtype = DType::kFloat32;
  float threshold = 0;        // threshold of compressed gradients
  std::vector<int64_t> rows;  // rows within the part
};

struct PullHeader {
  std::string key;
  uint32_t part = 0;
  uint64_t step = 0;  // step of this worker that the value must include
  bool by_rows = false;
  std::vector<int64_t> rows;
};

struct PartName {
  std::string key;
  uint32_t part = 0;
};

struct Command {
  uint64_t number = 0;  // command number of this worker, from 1
  int32_t head = 0;
  std::string name, text;
};
// Heads of the store's own commands; those of users begin at 0.
enum CommandHead : int32_t {
  kSetSync = -1,
  kSetOptimizer = -2,     // name: scope and optimizer, "sgd" or "1:sgd"; text: JSON
  kUpdateOptimizer = -3,  // name: scope
  kProfiler = -4,  // names: "config" (text: JSON), "state" (run, stop, pause, resume), "dump"
};

// Stores of one process share the servers, each with an optimizer of its own: "1:" of the key or
// the name "1:w"; "" of other texts.
std::string scope_of(const std::string& name);

Body encode(const Hello& m);
Body encode(const Welcome& m);
Body encode(const Registration& m);
Body encode(const Registered& m);
Body encode(const Heartbeat& m);
Body encode(const JobState& m);
Body encode(const PlaceRequest& m);
Body encode(const PartSpec& m);
Body encode(const PushHeader& m);
Body encode(const PullHeader& m);
Body encode(const PartName& m);
Body encode(const Command& m);
Body encode_text(const std::string& text);
Body encode_number(uint64_t number);

template <class Message>
Message decode(const Body& body);
template <>
Hello decode(const Body& body);
template <>
Welcome decode(const Body& body);
template <>
Registration decode(const Body& body);
template <>
Registered decode(const Body& body);
template <>
Heartbeat decode(const Body& body);
template <>
JobState decode(const Body& body);
template <>
PlaceRequest decode(const Body& body);
template <>
PartSpec decode(const Body& body);
template <>
PushHeader decode(const Body& body);
template <>
PullHeader decode(const Body& body);
template <>
PartName decode(const Body& body);
template <>
Command decode(const Body& body);
std::string decode_text(const Body& body);
uint64_t decode_number(const Body& body);

// Answer to a request: an error, or a body and elements.
struct Reply {
  std::optional<Error> error;
  Body body;
  Buffer data;
};
Reply error_reply(ErrorKind kind, const std::string& text);
Frame reply_frame(uint64_t request, Reply reply);
Reply reply_of(Frame frame);

}  // namespace mxlite::server
