// Messages between the processes of a job. A message has a header, a small body of numbers and
// texts, and the elements of an array. Header and body carry authentication codes over their
// content and the frame's number on its connection. Only a process with the job's key can compute
// these codes. Received data is checked before it is used. An invalid frame ends the connection.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/link/buffer.h"
#include "cpp/kvstore/comm/link/seal.h"

namespace mxlite {

enum class FrameType : uint8_t {
  kHello = 1,  // first frame on a connection, sent by the process that connects
  kWelcome,
  kRefused,
  kReply,  // answer to a request
  // Frames to the scheduler of a job.
  kRegister,
  kHeartbeat,
  kLeave,
  kFail,
  kBarrier,
  kPlace,
  kGroupFailure,  // sent by a process to the scheduler and by the scheduler to all processes
  // Frames from the scheduler.
  kState,
  kChange,
  // Frames to a server.
  kInit,
  kPush,
  kPull,
  kStatus,
  kCommand,
  kGetStates,
  kSetStates,
  kReport,
  kFlush,
};
inline constexpr uint8_t kLastFrameType = static_cast<uint8_t>(FrameType::kFlush);

struct FrameHeader {
  uint32_t magic = 0;
  uint16_t format = 0;
  uint8_t type = 0;
  uint8_t reserved = 0;
  uint64_t seal = 0;  // authentication code of the header and the frame's number on its connection
  uint64_t request = 0;  // number of the request; a reply has the number of its request
  uint32_t epoch = 0;    // identifies this run of the job; chosen by the scheduler
  uint32_t body_bytes = 0;
  uint32_t data_bytes = 0;
  uint32_t data_checksum = 0;
  uint64_t body_seal = 0;  // authentication code of the body
  uint32_t padding = 0;
  uint32_t header_checksum = 0;  // checksum of the bytes before it
};
static_assert(sizeof(FrameHeader) == 56);

inline constexpr size_t kMostBody = size_t{4} << 20;
inline constexpr size_t kMostData = size_t{64} << 20;
inline constexpr size_t kMostForeign = 4096;  // limit of a body's bytes before the peer has sent
                                              // hello

struct Frame {
  FrameType type = FrameType::kHello;
  uint64_t request = 0;
  std::vector<std::byte> body;
  Buffer data;
  int priority = 0;  // frames with larger values are sent first; not part of the message
};

struct FrameStamp {
  SealKey key;
  uint64_t number = 0;  // number of frames sent so far on this end of the connection
  uint32_t epoch = 0;   // 0 if not known yet
};
FrameHeader make_header(const Frame& frame, const FrameStamp& stamp);

enum class BadFrame : uint8_t {
  kMagic,
  kFormat,
  kChecksum,
  kToken,
  kEpoch,
  kType,
  kLength,
  kContent,  // a body that cannot be decoded
  kOrder,    // a frame that the peer must not send at this point
};
inline constexpr size_t kNumBadFrames = 9;
const char* bad_frame_name(BadFrame kind);

class FrameError : public Error {
 public:
  FrameError(BadFrame kind, const std::string& text)
      : Error(ErrorKind::kCommunicator, text), kind(kind) {}
  const BadFrame kind;
};

// Splits a stream of bytes into frames. Allocates memory for a frame after checking its header.
class FrameDecoder {
 public:
  // Sets the key of incoming frames. Call before the first byte.
  void set_key(const SealKey& key) { key_ = key; }
  void set_epoch(uint32_t epoch) { epoch_ = epoch; }
  void set_trusted() { trusted_ = true; }  // call after hello was received
  bool is_trusted() const { return trusted_; }
  // Returns how many bytes the current part of the frame still needs. Read no more bytes than this
  // from a connection that is not trusted, because other data may follow the frame.
  size_t wanted() const;

  // Consumes bytes up to the end of a frame and returns their number. After a FrameError, the
  // stream must not be used.
  size_t feed(std::span<const std::byte> bytes);
  // Returns memory into which a large part of a frame may be read directly. Call `filled`
  // afterwards.
  std::span<std::byte> direct();
  void filled(size_t n);
  bool complete() const { return complete_; }
  Frame take();

 private:
  void check_header();
  void check_content();
  size_t copy(std::byte* to, size_t have, size_t want, std::span<const std::byte> from);

  SealKey key_;
  uint64_t number_ = 0;  // number of the next frame
  uint32_t epoch_ = 0;
  bool trusted_ = false;
  FrameHeader header_;
  size_t header_have_ = 0, body_have_ = 0, data_have_ = 0;
  bool complete_ = false;
  std::vector<std::byte> body_;
  OwnBuffer data_;
};

}  // namespace mxlite
