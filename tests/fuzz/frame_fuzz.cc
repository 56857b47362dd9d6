// Frames between processes of a job: a stream of any bytes, and bodies of every message that arrive
// in frames with valid codes. The first byte chooses.
#include "cpp/jobs/request.h"
#include "cpp/kvstore/comm/ordered_calls.h"
#include "cpp/kvstore/server/messages.h"
#include "tests/fuzz/target.h"

using namespace mxlite;

namespace {

void feed(FrameDecoder& decoder, fuzz::Bytes bytes) {
  while (!bytes.empty() && !decoder.complete()) bytes = bytes.subspan(decoder.feed(bytes));
}

void decode_as(int choice, const Body& body) {
  switch (choice % 19) {
    case 0:
      return void(decode<members::Hello>(body));
    case 1:
      return void(decode<members::Registration>(body));
    case 2:
      return void(decode<members::Registered>(body));
    case 3:
      return void(decode<members::Heartbeat>(body));
    case 4:
      return void(decode<members::JobState>(body));
    case 5:
      return void(decode<members::MemberChange>(body));
    case 6:
      return void(decode<members::GroupFailure>(body));
    case 7:
      return void(decode<members::Welcome>(body));
    case 8:
      return void(decode<server::PlaceRequest>(body));
    case 9:
      return void(decode<server::PartSpec>(body));
    case 10:
      return void(decode<server::PushHeader>(body));
    case 11:
      return void(decode<server::PullHeader>(body));
    case 12:
      return void(decode<server::PartName>(body));
    case 13:
      return void(decode<server::Command>(body));
    case 14:
      return void(decode<std::string>(body));
    case 15:
      return void(decode<uint64_t>(body));
    case 16: {
      FrameReader frame(body, jobs::kNegotiationFrame);
      return void(jobs::read_request(frame));
    }
    case 17: {
      OrderedCalls calls(3);
      FrameReader frame(body, "calls");
      return calls.read(choice % 3, frame);
    }
    default: {
      Frame frame;
      frame.body = body;
      members::reply_of(std::move(frame));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  constexpr SealKey kKey = {1, 2};
  FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_trusted();
  if (data[0] >= 128) {
    fuzz::expect([&] { feed(decoder, bytes); }, {ErrorKind::kCommunicator});
    return 0;
  }
  Frame frame{FrameType::kPush, 1, {bytes.begin(), bytes.end()}, {}};
  const FrameHeader header = make_header(frame, {kKey, 0, 0});
  feed(decoder, std::as_bytes(std::span(&header, 1)));
  feed(decoder, frame.body);
  fuzz::require(decoder.complete(), "a valid frame is taken");
  fuzz::expect([&] { decode_as(data[0], decoder.take().body); }, {ErrorKind::kCommunicator});
  return 0;
}
