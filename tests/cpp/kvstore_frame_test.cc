// Tests which frames between processes of a job are accepted and which are refused, sockets in
// forks, and addresses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "cpp/kvstore/comm/link/address.h"
#include "cpp/kvstore/comm/link/socket.h"
#include "cpp/kvstore/server/messages.h"
#include "tests/cpp/errors.h"

namespace mxlite::server {
namespace {

constexpr SealKey kKey = {77, 78};

std::vector<std::byte> bytes_of(const Frame& frame, const FrameStamp& stamp) {
  const FrameHeader header = make_header(frame, stamp);
  std::vector<std::byte> bytes(sizeof header + frame.body.size() + frame.data.bytes);
  std::byte* end = bytes.data();
  auto append = [&end](const void* data, size_t count) {
    if (count) std::memcpy(end, data, count);
    end += count;
  };
  append(&header, sizeof header);
  append(frame.body.data(), frame.body.size());
  append(frame.data.data, frame.data.bytes);
  return bytes;
}

Buffer floats(const std::vector<float>& values) {
  const OwnBuffer buffer = OwnBuffer::allocate(values.size() * sizeof(float));
  if (buffer.bytes > 0) std::memcpy(buffer.data(), values.data(), buffer.bytes);
  return buffer.shared();
}

TEST(Frames, SurviveAnyCutOfTheStream) {
  std::mt19937 random(1);
  std::vector<std::byte> stream;
  for (int i = 0; i < 50; ++i) {
    std::vector<float> values(random() % 9000);
    for (float& v : values) v = static_cast<float>(random());
    Frame frame{FrameType::kPush, static_cast<uint64_t>(i), encode(std::string(i * 7, 'x')),
                floats(values)};
    const auto bytes = bytes_of(frame, {kKey, static_cast<uint64_t>(i), 5});
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_epoch(5);
  decoder.set_trusted();
  std::span<const std::byte> left = stream;
  uint64_t next = 0;
  while (!left.empty()) {
    size_t n = std::min<size_t>(left.size(), random() % 5000);
    if (auto direct = decoder.direct(); !direct.empty() && random() % 2) {
      n = std::min(left.size(), direct.size());
      std::memcpy(direct.data(), left.data(), n);
      decoder.filled(n);
      left = left.subspan(n);
    } else {
      left = left.subspan(decoder.feed(left.first(n)));
    }
    if (!decoder.complete()) continue;
    const Frame frame = decoder.take();
    EXPECT_EQ(frame.request, next);
    EXPECT_EQ(decode<std::string>(frame.body), std::string(next * 7, 'x'));
    ++next;
  }
  EXPECT_EQ(next, 50u);
}

BadFrame refusal(const std::vector<std::byte>& bytes, uint32_t epoch = 5, bool trusted = true) {
  FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_epoch(epoch);
  if (trusted) decoder.set_trusted();
  try {
    std::span<const std::byte> left = bytes;
    while (!left.empty() && !decoder.complete()) left = left.subspan(decoder.feed(left));
  } catch (const FrameError& e) {
    return e.kind;
  }
  return BadFrame::kOrder;  // taken
}

TEST(Frames, RefuseWhatIsNotOfThisJob) {
  const Frame frame{FrameType::kPush, 1, encode(std::string("body")), floats({1, 2, 3})};
  const auto good = bytes_of(frame, {kKey, 0, 5});
  EXPECT_EQ(refusal(good), BadFrame::kOrder);
  EXPECT_EQ(refusal(bytes_of(frame, {{77, 79}, 0, 5})), BadFrame::kToken);
  EXPECT_EQ(refusal(bytes_of(frame, {kKey, 1, 5})), BadFrame::kToken);  // not the first
  EXPECT_EQ(refusal(bytes_of(frame, {kKey, 0, 6})), BadFrame::kEpoch);
  EXPECT_EQ(refusal(good, 5, false), BadFrame::kLength);  // data before hello
  auto flipped = good;
  flipped.back() ^= std::byte{1};
  EXPECT_EQ(refusal(flipped), BadFrame::kChecksum);
  flipped = good;
  flipped[30] ^= std::byte{1};
  EXPECT_EQ(refusal(flipped), BadFrame::kChecksum);
  const std::string request =
      "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n";
  std::vector<std::byte> foreign(request.size());
  std::memcpy(foreign.data(), request.data(), request.size());
  EXPECT_EQ(refusal(foreign), BadFrame::kMagic);
}

TEST(Frames, NoFlippedBitIsTaken) {
  const Frame frame{FrameType::kPush, 1,
                    encode(PushHeader{"k", 0, 3, PushForm::kDense, DType::kFloat32, 0, {}}),
                    floats({1, 2, 3})};
  const auto good = bytes_of(frame, {kKey, 0, 5});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(refusal(bad), BadFrame::kOrder) << "bit " << bit;
  }
}

// A recorded frame is refused if it is sent again, on its connection or on another one.
TEST(Frames, AreNotTakenTwice) {
  const Frame frame{FrameType::kPush, 1, encode(std::string("body")), {}};
  FrameDecoder decoder;
  decoder.set_key(kKey);
  decoder.set_trusted();
  const auto good = bytes_of(frame, {kKey, 0, 0});
  EXPECT_EQ(decoder.feed(good), good.size());
  ASSERT_TRUE(decoder.complete());
  decoder.take();
  EXPECT_THROW(decoder.feed(good), FrameError);

  const SealKey job = key_of_secret("secret");
  EXPECT_FALSE(job == key_of_secret("Secret"));
  const Nonce a = random_nonce(), b = random_nonce(), c = random_nonce();
  const ConnectionKeys first = connection_keys(job, a, b), again = connection_keys(job, a, b);
  EXPECT_TRUE(first.connecting == again.connecting && first.accepting == again.accepting);
  EXPECT_FALSE(first.connecting == first.accepting);  // nothing can be sent back
  EXPECT_FALSE(first.connecting == connection_keys(job, a, c).connecting);
  EXPECT_FALSE(first.connecting == connection_keys(job, c, b).connecting);
}

TEST(Seals, AreThoseOfTheReference) {
  const SealKey key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::vector<std::byte> data;
  EXPECT_EQ(sip_hash(key, data), 0x726fdb47dd0e0e31u);
  for (int i = 0; i < 15; ++i) data.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(sip_hash(key, data), 0xa129ca6149be45e5u);
}

TEST(Messages, AnyTimeoutAndHostNameCanBeRegistered) {
  for (const double seconds : {1e-9, 1.0, 1e300}) {
    Registration r;
    r.host = std::string(5000, 'h');
    r.timeout = r.silence = seconds;
    const std::string text = error_of([&] { decode<Registration>(encode(r)); });
    EXPECT_EQ(text.empty(), seconds == 1) << text;
    r.clamp();
    const auto back = decode<Registration>(encode(r));
    EXPECT_EQ(back.timeout, std::clamp(seconds, 1e-3, 1e7));
    EXPECT_EQ(back.host, std::string(128, 'h'));
  }
}

TEST(Sockets, AForkHasNone) {
  auto socket = std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM, 0));
  const int number = socket->get();
  const pid_t child = fork();
  if (child == 0) {
    const bool is_closed = fcntl(number, F_GETFD) < 0 && !*socket;
    // Another file may get the number of the descriptor. The parent's object does not own that
    // file.
    const bool is_taken = dup2(STDERR_FILENO, number) == number;
    socket.reset();
    _exit(is_closed && is_taken && fcntl(number, F_GETFD) >= 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(*socket && fcntl(number, F_GETFD) >= 0);
}

TEST(Addresses, TextsAreChecked) {
  EXPECT_EQ(address_text(address_from_text("test", "[::1]:80")), "[::1]:80");
  EXPECT_EQ(address_from_text("test", "a.b:65535").port, 65535);
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x"})
    EXPECT_THROW(address_from_text("test", text), Error) << text;
}

}  // namespace
}  // namespace mxlite::server
