// Frames of the parameter server and of the rendezvous of a job: a stream of any bytes, and bodies
// of every message that arrive in frames with valid codes. The first byte chooses.
#include <algorithm>

#include "cpp/jobs/request.h"
#include "cpp/kvstore/comm/ordered_calls.h"
#include "cpp/kvstore/comm/tcp/wire.h"
#include "cpp/kvstore/server/messages.h"
#include "tests/fuzz/target.h"

using namespace mxlite;

namespace {

void feed(server::FrameDecoder& decoder, fuzz::Bytes bytes) {
  while (!bytes.empty() && !decoder.complete()) bytes = bytes.subspan(decoder.feed(bytes));
}

// Gives the bytes to one end of a connection of a job's rendezvous, in pieces.
void feed_job(const SealKey& key, fuzz::Bytes bytes, size_t piece) {
  tcp::FrameDecoder decoder;
  while (!bytes.empty()) {
    const std::span<std::byte> space = decoder.space();
    const size_t n = std::min({space.size(), bytes.size(), piece});
    fuzz::require(n > 0, "the decoder takes bytes");
    std::copy_n(bytes.begin(), n, space.begin());
    bytes = bytes.subspan(n);
    decoder.filled(n);
    if (decoder.complete()) decoder.take();
    if (decoder.space().empty()) decoder.set_key(key);
  }
}

void decode_as(int choice, const server::Body& body) {
  switch (choice % 21) {
    case 0:
      return void(server::decode<server::Hello>(body));
    case 1:
      return void(server::decode<server::Registration>(body));
    case 2:
      return void(server::decode<server::Registered>(body));
    case 3:
      return void(server::decode<server::Heartbeat>(body));
    case 4:
      return void(server::decode<server::JobState>(body));
    case 5:
      return void(server::decode<server::PlaceRequest>(body));
    case 6:
      return void(server::decode<server::PartSpec>(body));
    case 7:
      return void(server::decode<server::PushHeader>(body));
    case 8:
      return void(server::decode<server::PullHeader>(body));
    case 9:
      return void(server::decode<server::PartName>(body));
    case 10:
      return void(server::decode<server::Command>(body));
    case 11:
      return void(server::decode_text(body));
    case 12: {
      FrameReader frame(body, jobs::kNegotiationFrame);
      return void(jobs::read_request(frame));
    }
    case 13: {
      OrderedCalls calls(3);
      FrameReader frame(body, "calls");
      return calls.read(choice % 3, frame);
    }
    case 14:
      return void(tcp::decode<tcp::Registration>(body));
    case 15:
      return void(tcp::decode<tcp::Table>(body));
    case 16:
      return void(tcp::decode<tcp::Departure>(body));
    case 17:
      return void(tcp::decode<tcp::GroupFailure>(body));
    case 18:
      return void(tcp::decode<tcp::Hello>(body));
    case 19:
      return void(tcp::decode_text(body));
    default: {
      server::Frame frame;
      frame.body = body;
      server::reply_of(std::move(frame));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  constexpr SealKey kKey = {1, 2};
  if (data[0] >= 192) {
    fuzz::expect([&] { feed_job(kKey, bytes, data[0] - 191u); }, {ErrorKind::kCommunicator});
    return 0;
  }
  server::FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_trusted();
  if (data[0] >= 128) {
    fuzz::expect([&] { feed(decoder, bytes); }, {ErrorKind::kCommunicator});
    return 0;
  }
  server::Frame frame{server::FrameType::kPush, 1, {bytes.begin(), bytes.end()}, {}};
  const server::FrameHeader header = server::make_header(frame, {kKey, 0, 0});
  feed(decoder, std::as_bytes(std::span(&header, 1)));
  feed(decoder, frame.body);
  fuzz::require(decoder.complete(), "a valid frame is taken");
  fuzz::expect([&] { decode_as(data[0], decoder.take().body); }, {ErrorKind::kCommunicator});
  return 0;
}
