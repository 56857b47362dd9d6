// Frames of the parameter server: a stream of any bytes, and bodies of every message that arrive
// in frames with valid seals. The first byte chooses.
#include "cpp/kvstore/server/messages.h"

#include "tests/fuzz/target.h"

using namespace mxlite;

namespace {

void feed(ps::FrameDecoder& decoder, fuzz::Bytes bytes) {
  while (!bytes.empty() && !decoder.complete()) bytes = bytes.subspan(decoder.feed(bytes));
}

void decode_as(int choice, const ps::Body& body) {
  switch (choice % 14) {
    case 0:
      return void(ps::decode<ps::Hello>(body));
    case 1:
      return void(ps::decode<ps::Registration>(body));
    case 2:
      return void(ps::decode<ps::Registered>(body));
    case 3:
      return void(ps::decode<ps::Heartbeat>(body));
    case 4:
      return void(ps::decode<ps::JobState>(body));
    case 5:
      return void(ps::decode<ps::PlaceRequest>(body));
    case 6:
      return void(ps::decode<ps::PartSpec>(body));
    case 7:
      return void(ps::decode<ps::PushHeader>(body));
    case 8:
      return void(ps::decode<ps::PullHeader>(body));
    case 9:
      return void(ps::decode<ps::PartName>(body));
    case 10:
      return void(ps::decode<ps::Command>(body));
    case 11:
      return void(ps::decode_text(body));
    case 12:
      return void(FrameReader(body).request());
    default: {
      ps::Frame frame;
      frame.body = body;
      ps::reply_of(std::move(frame));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  constexpr ps::SealKey kKey = {1, 2};
  ps::FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_trusted();
  if (data[0] >= 128) {
    fuzz::expect([&] { feed(decoder, bytes); }, {ErrorKind::kCommunicator});
    return 0;
  }
  ps::Frame frame{ps::FrameType::kPush, 1, {bytes.begin(), bytes.end()}, {}};
  const ps::FrameHeader header = ps::make_header(frame, {kKey, 0, 0});
  feed(decoder, std::as_bytes(std::span(&header, 1)));
  feed(decoder, frame.body);
  fuzz::require(decoder.complete(), "a valid frame is taken");
  fuzz::expect([&] { decode_as(data[0], decoder.take().body); }, {ErrorKind::kCommunicator});
  return 0;
}
