// Frames with which the processes of a job find each other over TCP, and their contents. Both ends
// of a connection begin with a random number; every frame then carries a code that only a process
// with the job's token can compute, over its content and its place on the connection. Everything
// that arrives is checked before it is used; errors are communicator errors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/seal.h"

namespace mxlite::tcp {

inline constexpr const char* kJobFrame = "job rendezvous";  // begins the text of errors
inline constexpr int kMostProcesses = 4096;
inline constexpr double kLeastSeconds = 1e-3, kMostSeconds = 1e7;  // limits of times in frames
inline constexpr size_t kMostHostBytes = 128;                      // longer names of hosts are cut

enum class FrameKind : uint8_t {
  // Frames from a process to the rendezvous.
  kRegister = 1,
  kHeartbeat,
  kLeave,
  kGroupFailure,  // also from the rendezvous to all processes
  // Frames from the rendezvous.
  kTable,
  kRefused,  // text: why the job cannot start
  kLost,
  kLeft,
  // Frames between two processes that form a group.
  kHello,
  kWelcome,
};
inline constexpr auto kLastFrameKind = static_cast<uint8_t>(FrameKind::kWelcome);

inline constexpr size_t kMostFrameBytes = size_t{2} << 20;
inline constexpr size_t kMostFirstFrameBytes = 1024;  // from a peer that has not proved the token

using Body = std::vector<std::byte>;

struct WireFrame {
  FrameKind kind = FrameKind::kHeartbeat;
  Body body;
};

struct Registration {
  int32_t rank = 0, size = 0;
  std::string host;     // name of the host, for the text of errors
  std::string address;  // "host:port" at which the process accepts others
  int64_t process = 0;
  double timeout = 0;  // seconds that the process waits for the others
  double silence = 0;  // seconds without a heartbeat after which it counts as lost
};

// One entry for each rank.
struct Table {
  std::vector<std::string> hosts, addresses;
};

// A rank that is lost or has left.
struct Departure {
  int32_t rank = 0;
  std::string why;
};

struct GroupFailure {
  uint64_t group = 0;
  std::string why;
};

// First frame of a connection between two members of a group.
struct Hello {
  uint64_t group = 0;
  int32_t rank = 0;  // Rank of the sender in the job
};

Body encode(const Registration& m);
Body encode(const Table& m);
Body encode(const Departure& m);
Body encode(const GroupFailure& m);
Body encode(const Hello& m);
Body encode_text(const std::string& text);

template <class Message>
Message decode(std::span<const std::byte> body);
std::string decode_text(std::span<const std::byte> body);

// One direction's key and the number of the next frame.
struct Seal {
  SealKey key;
  uint64_t number = 0;
};
// Returns the frame's bytes and counts it. Throws an internal error for a body over the limit.
Body seal_frame(const WireFrame& frame, Seal& seal);

// Takes the bytes of one direction of a connection: the peer's random number, then frames. Asks for
// no byte beyond the frame that it is reading, because other data may follow a frame.
class FrameDecoder {
 public:
  FrameDecoder();
  // Returns the memory for the next bytes; call filled with the number that came. Empty while a
  // frame is complete, and after the random number until set_key.
  std::span<std::byte> space();
  void filled(size_t bytes);

  std::optional<Nonce> nonce() const;  // once it has come
  void set_key(const SealKey& key);
  void set_trusted() { most_ = kMostFrameBytes; }  // a frame with a valid code has come
  bool complete() const { return stage_ == Stage::kComplete; }
  WireFrame take();  // a complete frame

 private:
  enum class Stage : uint8_t { kPreamble, kKey, kHeader, kBody, kComplete };
  void check_header();
  void check_body();

  Stage stage_ = Stage::kPreamble;
  size_t have_ = 0;  // bytes received of the present frame
  std::vector<std::byte> head_, body_;
  std::optional<Nonce> nonce_;
  Seal seal_;
  size_t most_ = kMostFirstFrameBytes;
};

// Returns the bytes with which this end begins a connection.
Body preamble(const Nonce& nonce);

}  // namespace mxlite::tcp
