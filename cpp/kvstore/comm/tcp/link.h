// One end of a connection on which frames travel. Does not wait: its owner polls the socket.
#pragma once
#include <deque>
#include <optional>
#include <string>

#include "cpp/kvstore/comm/tcp/socket.h"
#include "cpp/kvstore/comm/tcp/wire.h"

namespace mxlite::tcp {

class Link {
 public:
  // `accepted`: whether the peer has connected, not this end.
  Link(Socket socket, const SealKey& job, bool accepted);

  int descriptor() const { return socket_.get(); }
  const Socket& socket() const { return socket_; }
  // Queues a frame; it is sealed and sent once the peer's random number has come.
  void send(FrameKind kind, Body body);
  bool wants_write() const { return sent_ < outgoing_.size(); }
  size_t waiting_bytes() const { return outgoing_.size() - sent_; }
  // Whether queued frames have left this process's memory.
  bool sent_all() const { return queued_.empty() && !wants_write(); }

  // Sends and receives until the socket would wait or a frame is complete. Returns false once the
  // connection is closed; a frame that came before can still be taken. Throws a communicator error
  // for bytes that are no valid frame.
  bool move();
  // Sends only: bytes that follow a frame may not be frames. Returns false once the connection is
  // closed.
  bool flush();
  // Returns a frame that has come; after it, call move again.
  std::optional<WireFrame> take();
  // Gives the socket away; no byte beyond the last frame taken has been read.
  Socket release() { return std::move(socket_); }

 private:
  void begin_frames();

  Socket socket_;
  SealKey job_;
  bool accepted_;
  Nonce mine_ = random_nonce();
  FrameDecoder decoder_;
  std::optional<Seal> seal_;      // Seals frames from this end
  std::deque<WireFrame> queued_;  // until the peer's random number has come
  Body outgoing_;
  size_t sent_ = 0;
};

}  // namespace mxlite::tcp
