// Frames, sockets and addresses of jobs over several hosts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/tcp/socket.h"
#include "cpp/kvstore/comm/tcp/wire.h"
#include "tests/cpp/comm_errors.h"
#include "tests/cpp/few_descriptors.h"

namespace mxlite {
namespace {

constexpr SealKey kKey = {5, 6};

std::vector<std::byte> stream_of(const std::vector<tcp::WireFrame>& frames) {
  tcp::Body bytes = tcp::preamble(Nonce{});
  tcp::Seal seal{kKey};
  for (const tcp::WireFrame& frame : frames) {
    const tcp::Body sealed = tcp::seal_frame(frame, seal);
    bytes.insert(bytes.end(), sealed.begin(), sealed.end());
  }
  return bytes;
}

std::vector<tcp::WireFrame> read(std::span<const std::byte> bytes, size_t at_once) {
  tcp::FrameDecoder decoder;
  std::vector<tcp::WireFrame> frames;
  while (!bytes.empty()) {
    const std::span<std::byte> space = decoder.space();
    const size_t n = std::min({space.size(), bytes.size(), at_once});
    std::copy_n(bytes.begin(), n, space.begin());
    bytes = bytes.subspan(n);
    decoder.filled(n);
    if (decoder.nonce() && decoder.space().empty() && !decoder.complete()) decoder.set_key(kKey);
    if (decoder.complete()) frames.push_back(decoder.take());
  }
  return frames;
}

TEST(JobFrames, FramesComeBackFromAnyPieces) {
  const tcp::Registration r{3, 4, "host", "127.0.0.1:77", 12, 600, 60};
  const auto bytes =
      stream_of({{tcp::FrameKind::kHeartbeat, {}}, {tcp::FrameKind::kRegister, encode(r)}});
  for (const size_t at_once : {size_t{1}, size_t{7}, size_t{1000}}) {
    const auto frames = read(bytes, at_once);
    ASSERT_EQ(frames.size(), 2u);
    EXPECT_EQ(frames[0].kind, tcp::FrameKind::kHeartbeat);
    const auto back = tcp::decode<tcp::Registration>(frames[1].body);
    EXPECT_EQ(back.rank, 3);
    EXPECT_EQ(back.address, "127.0.0.1:77");
    EXPECT_EQ(back.timeout, 600);
  }
}

TEST(JobFrames, AnyTimeoutAndHostNameCanBeRegistered) {
  for (const double seconds : {1e-9, 1.0, 1e300}) {
    const tcp::Registration r{3, 4, std::string(5000, 'h'), "127.0.0.1:77", 12, seconds, seconds};
    const auto bytes = stream_of({{tcp::FrameKind::kRegister, encode(r)}});
    const auto back = tcp::decode<tcp::Registration>(read(bytes, 1000).at(0).body);
    EXPECT_EQ(back.timeout, std::clamp(seconds, 1e-3, 1e7));
    EXPECT_EQ(back.silence, back.timeout);
    EXPECT_EQ(back.host, std::string(128, 'h'));
  }
}

TEST(JobFrames, EveryChangedByteIsRefused) {
  const auto bytes = stream_of({{tcp::FrameKind::kHello, encode(tcp::Hello{1, 2})}});
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i >= 8 && i < 24) continue;  // the random number, which the keys depend on
    auto changed = bytes;
    changed[i] ^= std::byte{0x10};
    std::string text = "no error";
    size_t frames = 0;
    try {
      frames = read(changed, 1000).size();  // a longer frame is not complete
    } catch (const Error& error) {
      text = error.what();
      EXPECT_EQ(error.kind(), ErrorKind::kCommunicator);
    }
    EXPECT_TRUE(text != "no error" || frames == 0) << "byte " << i;
  }
}

TEST(JobFrames, AFrameOutOfItsPlaceIsRefused) {
  const auto bytes = stream_of({{tcp::FrameKind::kHeartbeat, {}}, {tcp::FrameKind::kLeave, {}}});
  std::vector<std::byte> swapped(bytes.begin(), bytes.begin() + 24);
  swapped.insert(swapped.end(), bytes.begin() + 48, bytes.end());
  EXPECT_HAS(error_of([&] { read(swapped, 1000); }), "out of its place");
}

TEST(JobFrames, LongFramesOfStrangersAreRefusedBeforeMemoryIsTaken) {
  const auto bytes =
      stream_of({{tcp::FrameKind::kRefused, tcp::Body(tcp::kMostFirstFrameBytes + 1)}});
  EXPECT_HAS(error_of([&] { read(std::span(bytes).first(48), 1000); }), "a frame of 1025 bytes");
}

TEST(Sockets, AForkHasNone) {
  auto socket = std::make_unique<tcp::Socket>(tcp::listen_at({"127.0.0.1", 0}));
  const int number = socket->get();
  const pid_t child = fork();
  if (child == 0) {
    const bool is_closed = fcntl(number, F_GETFD) < 0 && !*socket;
    // Another file may get the number; it does not belong to the parent's object.
    const bool is_taken = dup2(STDERR_FILENO, number) == number;
    socket.reset();
    _exit(is_closed && is_taken && fcntl(number, F_GETFD) >= 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(*socket && fcntl(number, F_GETFD) >= 0);
}

TEST(Sockets, AnAttemptWithoutAnswerSaysSo) {
  const tcp::Socket listener = tcp::listen_at({"127.0.0.1", 0});
  ASSERT_EQ(listen(listener.get(), 0), 0);  // the queue holds one connection
  std::vector<tcp::Socket> queue;
  std::string trouble;
  do queue.push_back(tcp::connect_to(tcp::local_address(listener), trouble));
  while (queue.back() && queue.size() < 10);
  EXPECT_EQ(trouble, "Connection timed out");
}

TEST(Sockets, NoDescriptorIsAnError) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const tcp::Socket listener = tcp::listen_at({"127.0.0.1", 0});
  const TcpAddress address = tcp::local_address(listener);
  std::string text, trouble;
  {
    const FewDescriptors none(0);
    text = error_of([&] { tcp::connect_to(address, trouble); });
  }
  EXPECT_HAS(text, "no descriptor is left for a connection with 127.0.0.1:");
}

TEST(Addresses, TextsAreChecked) {
  EXPECT_EQ(address_text(address_from_text("test", "[::1]:80")), "[::1]:80");
  EXPECT_EQ(address_from_text("test", "a.b:65535").port, 65535);
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:8x"})
    EXPECT_THROW(address_from_text("test", text), Error) << text;
}

}  // namespace
}  // namespace mxlite
