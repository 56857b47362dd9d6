// The rendezvous of a job over several hosts: ranks that are lost, silent, wrong, or strangers, and
// processes without descriptors. Ranks are threads here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/comm_errors.h"
#include "tests/cpp/few_descriptors.h"
#include "tests/cpp/tcp_ranks.h"

namespace mxlite {
namespace {

// Shortens the timeout, which the first wait reads.
[[maybe_unused]] const int kShortTimeout = setenv("MXLITE_COMM_TIMEOUT", "4", 1);

TEST(Rendezvous, MissingRanksAreNamed) {
  const tcp::Rendezvous meeting(3, {"127.0.0.1", 0}, kToken);
  const std::string text = error_of([&] { const tcp::Job job(place_of(meeting, 1, 3)); });
  EXPECT_HAS(text, "rank 1 has waited 4 s (MXLITE_COMM_TIMEOUT)");
  EXPECT_HAS(text, "ranks 0, 2 have not joined the job of 3 processes");
}

TEST(Rendezvous, ALostRankIsNamedToTheOthers) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  auto other = std::make_unique<Impostor>(meeting, kToken, registration(1, 2));
  other->pump();
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  EXPECT_EQ(other->next()->kind, tcp::FrameKind::kTable);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other.reset();
  });
  const auto begin = Clock::now();
  const std::string text = error_of([&] { tcp::make_communicator(job); });
  EXPECT_HAS(text, "rank 1 is lost (host elsewhere, process 4711): its connection was closed");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
  end.join();
}

TEST(Rendezvous, ASilentRankIsNamedToTheOthers) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  tcp::Registration r = registration(1, 2);
  r.silence = 1;
  Impostor other(meeting, kToken, r);
  other.pump();
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  EXPECT_HAS(error_of([&] { tcp::make_communicator(job); }), "no sign of life for 1 s");
  // The silent rank gets the reason, too, when it runs again.
  EXPECT_EQ(other.next()->kind, tcp::FrameKind::kTable);
  std::string own = "no message";
  while (const auto frame = other.next())
    if (frame->kind == tcp::FrameKind::kLost) own = tcp::decode<tcp::Departure>(frame->body).why;
  EXPECT_HAS(own, "no sign of life for 1 s");
}

TEST(Rendezvous, ARankThatEndsBeforeTheStartIsNamed) {
  const tcp::Rendezvous meeting(3, {"127.0.0.1", 0}, kToken);
  std::thread end([&] {
    Impostor other(meeting, kToken, registration(2, 3));
    other.pump();
  });
  EXPECT_HAS(error_of([&] { const tcp::Job job(place_of(meeting, 0, 3)); }), "rank 2 is lost");
  end.join();
}

TEST(Rendezvous, WrongRanksAndSizesAreRefused) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const auto refusal = [&](const tcp::Registration& r) {
    Impostor other(meeting, kToken, r);
    const auto frame = other.next();
    if (!frame || frame->kind != tcp::FrameKind::kRefused) return std::string("not refused");
    return tcp::decode_text(frame->body);
  };
  EXPECT_HAS(refusal(registration(1, 3)), "rank 1 of 3 given, this is a job of 2 processes");
  EXPECT_HAS(refusal(registration(2, 2)), "rank 2 of 2 given");
  EXPECT_HAS(refusal(registration(-1, 2)), "rank -1 of 2 given");
  Impostor first(meeting, kToken, registration(1, 2));
  first.pump();
  EXPECT_HAS(refusal(registration(1, 2)), "rank 1 (host elsewhere, process 4711) has already");
}

TEST(Rendezvous, ConnectionsWaitWhileTheLauncherHasNoDescriptor) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  Impostor first(meeting, kToken, registration(0, 2));
  first.pump();
  testing::internal::CaptureStderr();
  auto few = std::make_unique<FewDescriptors>(1);
  Impostor second(meeting, kToken, registration(1, 2));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(processor_seconds() - before, 0.3);  // the rendezvous sleeps between its attempts
  few.reset();
  const auto frame = second.next();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_HAS(said,
             "job rendezvous: connections wait, because the launcher has no descriptor for "
             "them: Too many open files: ");
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, tcp::FrameKind::kTable);
}

TEST(Rendezvous, ALauncherWithoutDescriptorsSaysSoAtTheTimeout) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  tcp::Registration r = registration(0, 2);
  r.timeout = 1;
  Impostor first(meeting, kToken, r);
  first.pump();
  std::optional<tcp::WireFrame> frame;
  {
    const FewDescriptors few(1);
    const Impostor second(meeting, kToken, registration(1, 2));
    frame = first.next();
  }
  ASSERT_TRUE(frame && frame->kind == tcp::FrameKind::kRefused);
  const std::string text = tcp::decode_text(frame->body);
  EXPECT_HAS(text, "rank 1 has not joined the job of 2 processes; connections wait, because the ");
  EXPECT_HAS(text, " descriptors are open, the limit is ");
}

TEST(Rendezvous, ARankWithoutADescriptorForAnotherOneFails) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const SoftLimit low(open_descriptors().size() + 24);
  const rlim_t lowest = soft_limit();
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const SoftLimit again(lowest);  // the rendezvous has raised it
  Impostor other(meeting, kToken, registration(1, 2));
  std::string text = "not run";
  std::thread rank([&] {
    const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
    text = error_of([&] { tcp::make_communicator(job); });
  });
  const auto frame = other.next();
  ASSERT_TRUE(frame && frame->kind == tcp::FrameKind::kTable);
  // The rank raises the limit when it begins to wait for the other one.
  for (const Deadline end(3); soft_limit() == lowest && !end.over();)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(soft_limit(), lowest + 250);
  const auto begin = Clock::now();
  {
    const FewDescriptors few(1);
    std::string trouble;
    const tcp::Socket socket = tcp::connect_to(
        address_from_text("test", tcp::decode<tcp::Table>(frame->body).addresses[0]), trouble);
    EXPECT_TRUE(socket) << trouble;
    rank.join();
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));  // the timeout is 4 s
  EXPECT_HAS(text, "rank 0: no descriptor is left for a connection of another rank: Too many open");
}

TEST(Rendezvous, AnotherTokenIsNotServed) {
  const tcp::Rendezvous meeting(1, {"127.0.0.1", 0}, kToken);
  tcp::Registration r = registration(0, 1);
  EXPECT_FALSE(Impostor(meeting, "another token", r).next().has_value());
  EXPECT_EQ(Impostor(meeting, kToken, r).next()->kind, tcp::FrameKind::kTable);
}

TEST(Rendezvous, StrangersDoNotStopAJob) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const TcpAddress address = address_from_text("test", meeting.text());
  std::vector<tcp::Socket> strangers;
  std::string trouble;
  for (int i = 0; i < 600; ++i) {  // half of them say nothing
    strangers.push_back(tcp::connect_to(address, trouble));
    ASSERT_TRUE(strangers.back()) << trouble;
    const std::string nonsense(1000, 'z');
    if (i % 2) tcp::send_some(strangers.back(), nonsense.data(), nonsense.size());
  }
  const auto begin = Clock::now();
  std::thread other([&] {
    const auto job = std::make_shared<tcp::Job>(place_of(meeting, 1, 2));
    tcp::make_communicator(job)->barrier();
  });
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  tcp::make_communicator(job)->barrier();
  other.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));  // strangers may stay for 5 s
}

TEST(Rendezvous, NeedsATokenAndAFreePort) {
  EXPECT_THROW(tcp::Rendezvous(2, {"127.0.0.1", 0}, ""), Error);
  EXPECT_THROW(tcp::Rendezvous(0, {"127.0.0.1", 0}, kToken), Error);
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const TcpAddress taken = address_from_text("test", meeting.text());
  EXPECT_HAS(error_of([&] { tcp::Rendezvous(2, taken, kToken); }), "cannot listen at 127.0.0.1:");
}

}  // namespace
}  // namespace mxlite
