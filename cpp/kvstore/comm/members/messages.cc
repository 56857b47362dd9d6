#include "cpp/kvstore/comm/members/messages.h"

namespace mxlite::members {

const char* role_name(Role role) {
  constexpr const char* kNames[] = {"scheduler", "server", "worker"};
  return kNames[static_cast<size_t>(role)];
}

Reply error_reply(ErrorKind kind, const std::string& text) { return {Error(kind, text), {}, {}}; }

Frame reply_frame(uint64_t request, Reply reply) {
  FrameWriter w;
  w.number(uint8_t{reply.error.has_value()});
  if (reply.error) {
    w.number(static_cast<uint8_t>(reply.error->kind()));
    w.text(reply.error->what());
  }
  w.bytes(reply.body);
  return {FrameType::kReply, request, w.take(), std::move(reply.data)};
}

Reply reply_of(Frame frame) {
  FrameReader r(frame.body, kFrameBody);
  Reply reply;
  bool is_error = false;
  message::read(r, is_error);
  if (is_error) {
    ErrorKind kind{};
    message::read(r, kind);
    reply.error = Error(kind, r.text());
  } else {
    reply.body.assign(frame.body.begin() + 1, frame.body.end());
    reply.data = std::move(frame.data);
  }
  return reply;
}

}  // namespace mxlite::members
