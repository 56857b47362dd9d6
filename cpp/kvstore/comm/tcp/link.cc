#include "cpp/kvstore/comm/tcp/link.h"

namespace mxlite::tcp {

Link::Link(Socket socket, const SealKey& job, bool accepted)
    : socket_(std::move(socket)), job_(job), accepted_(accepted), outgoing_(preamble(mine_)) {
  set_nonblocking(socket_);
  set_no_delay(socket_);
}

void Link::send(FrameKind kind, Body body) {
  WireFrame frame{kind, std::move(body)};
  if (!seal_) return queued_.push_back(std::move(frame));
  const Body bytes = seal_frame(frame, *seal_);
  if (sent_ == outgoing_.size()) {
    outgoing_.clear();
    sent_ = 0;
  }
  outgoing_.insert(outgoing_.end(), bytes.begin(), bytes.end());
}

void Link::begin_frames() {
  const Nonce theirs = *decoder_.nonce();
  const ConnectionKeys keys =
      accepted_ ? connection_keys(job_, theirs, mine_) : connection_keys(job_, mine_, theirs);
  decoder_.set_key(accepted_ ? keys.connecting : keys.accepting);
  seal_ = Seal{accepted_ ? keys.accepting : keys.connecting};
  for (; !queued_.empty(); queued_.pop_front())
    send(queued_.front().kind, std::move(queued_.front().body));
}

bool Link::flush() {
  while (wants_write()) {
    const Moved moved = send_some(socket_, outgoing_.data() + sent_, outgoing_.size() - sent_);
    if (moved.closed) return false;
    if (moved.bytes == 0) break;
    sent_ += moved.bytes;
  }
  return true;
}

bool Link::move() {
  const bool open = flush();  // a peer that has closed may have sent its reason before
  while (!decoder_.complete()) {
    const std::span<std::byte> space = decoder_.space();
    const Moved moved = receive_some(socket_, space.data(), space.size());
    if (moved.closed) return false;
    if (moved.bytes == 0) break;
    decoder_.filled(moved.bytes);
    if (decoder_.nonce() && !seal_) begin_frames();
  }
  return flush() && open;
}

std::optional<WireFrame> Link::take() {
  if (!decoder_.complete()) return std::nullopt;
  decoder_.set_trusted();
  return decoder_.take();
}

}  // namespace mxlite::tcp
