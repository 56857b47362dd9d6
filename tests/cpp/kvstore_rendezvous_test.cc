// Tests the rendezvous of a job over several hosts: with ranks that are lost, silent or wrong, with
// foreign connections, and with processes that have no free descriptors. Ranks are threads here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/link/asio.h"
#include "tests/cpp/errors.h"
#include "tests/cpp/few_descriptors.h"
#include "tests/cpp/tcp_ranks.h"

namespace mxlite {
namespace {

// Shortens the timeout, which the first wait reads.
[[maybe_unused]] const int kShortTimeout = setenv("MXLITE_COMM_TIMEOUT", "4", 1);

TEST(Rendezvous, MissingRanksAreNamed) {
  const tcp::Rendezvous meeting(3, {"127.0.0.1", 0}, kToken);
  const std::string text = comm_error_of([&] { const tcp::Job job(place_of(meeting, 1, 3)); });
  EXPECT_HAS(text, "rank 1 has waited 4 s (MXLITE_COMM_TIMEOUT)");
  EXPECT_HAS(text, "ranks 0, 2 have not joined the job of 3 processes");
}

TEST(Rendezvous, ALostRankIsNamedToTheOthers) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  auto other = std::make_unique<Impostor>(meeting, kToken, registration(1, 2));
  other->joined();
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  other->wait_until_running();
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
  members::Registration r = registration(1, 2);
  r.silence = 1;
  Impostor other(meeting, kToken, r);
  other.joined();
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  EXPECT_HAS(comm_error_of([&] { tcp::make_communicator(job); }), "no heartbeat for 1 s");
  // The silent rank learns the reason, too.
  EXPECT_HAS(other.end_of(1).why, "no heartbeat for 1 s");
}

TEST(Rendezvous, ARankThatEndsBeforeTheStartIsNamed) {
  const tcp::Rendezvous meeting(3, {"127.0.0.1", 0}, kToken);
  std::thread end([&] { Impostor(meeting, kToken, registration(2, 3)).joined(); });
  EXPECT_HAS(comm_error_of([&] { const tcp::Job job(place_of(meeting, 0, 3)); }), "rank 2 is lost");
  end.join();
}

TEST(Rendezvous, WrongRanksAndSizesAreRefused) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const auto refusal = [&](const members::Registration& r) {
    return comm_error_of([&] { Impostor(meeting, kToken, r).joined(); });
  };
  EXPECT_HAS(refusal(registration(1, 3)), "rank must be in [0, 1] of 2 processes, got 1 of 3");
  EXPECT_HAS(refusal(registration(2, 2)), "got 2 of 2");
  EXPECT_HAS(refusal(registration(-1, 2)), "got -1 of 2");
  Impostor first(meeting, kToken, registration(1, 2));
  first.joined();
  EXPECT_HAS(refusal(registration(1, 2)), "rank 1 (host elsewhere, process 4711) has already");
}

TEST(Rendezvous, ConnectionsWaitWhileTheLauncherHasNoDescriptor) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  Impostor first(meeting, kToken, registration(0, 2)), second(meeting, kToken, registration(1, 2));
  first.joined();
  testing::internal::CaptureStderr();
  auto few = std::make_unique<FewDescriptors>(1);  // for the socket of the second rank
  std::thread rank([&] { second.joined(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(processor_seconds() - before, 0.3);  // the rendezvous sleeps between its attempts
  few.reset();
  rank.join();
  second.wait_until_running();
  EXPECT_HAS(testing::internal::GetCapturedStderr(),
             "connections wait, because the launcher has no descriptor for them: Too many open "
             "files: ");
}

TEST(Rendezvous, ALauncherWithoutDescriptorsSaysSoAtTheTimeout) {
  MX_SKIP_IF_CHECKS_NEED_DESCRIPTORS();
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  members::Registration r = registration(0, 2);
  r.timeout = 1;
  Impostor first(meeting, kToken, r);
  Impostor second(meeting, kToken, registration(1, 2));
  first.joined();
  std::thread rank;
  std::string text;
  {
    const FewDescriptors few(1);
    rank = std::thread([&] { comm_error_of([&] { second.joined(); }); });
    text = comm_error_of([&] { first.wait_until_running(); });
  }
  rank.join();
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
  other.joined();
  std::string text = "not run";
  std::thread rank([&] {
    const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
    text = comm_error_of([&] { tcp::make_communicator(job); });
  });
  other.wait_until_running();
  // The rank raises the limit when it begins to wait for the other one.
  for (const Deadline end(3); soft_limit() == lowest && !end.over();)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(soft_limit(), lowest + 250);
  const auto begin = Clock::now();
  {
    const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
    const FewDescriptors few(0);
    const std::string address = other.state().workers[0].address;
    EXPECT_EQ(connect_here(socket.get(), address_from_text("test", address).port), 0);
    rank.join();
  }
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));  // the timeout is 4 s
  EXPECT_HAS(text, "rank 0: no descriptor is left for a connection of another rank: Too many open");
}

TEST(Rendezvous, AnotherTokenIsNotServed) {
  const tcp::Rendezvous meeting(1, {"127.0.0.1", 0}, kToken);
  const members::Registration r = registration(0, 1);
  EXPECT_HAS(error_of([&] { Impostor(meeting, "another token", r).joined(); }),
             "without an answer; either MXLITE_JOB_TOKEN is that of another job");
  Impostor(meeting, kToken, r).joined().wait_until_running();
}

TEST(Rendezvous, StrangersDoNotStopAJob) {
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  asio::io_context context;
  std::vector<AsioTcp::socket> strangers;
  for (int i = 0; i < 600; ++i) {  // half of them send nothing
    strangers.emplace_back(context);
    asio::connect(strangers.back(), resolve(context, address_from_text("test", meeting.text())));
    std::error_code ignored;
    if (i % 2) strangers.back().write_some(asio::buffer(std::string(1000, 'z')), ignored);
  }
  const auto begin = Clock::now();
  std::thread other([&] {
    const auto job = std::make_shared<tcp::Job>(place_of(meeting, 1, 2));
    tcp::make_communicator(job)->barrier();
  });
  const auto job = std::make_shared<tcp::Job>(place_of(meeting, 0, 2));
  tcp::make_communicator(job)->barrier();
  other.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));  // foreign connections may stay for 5 s
}

TEST(Rendezvous, NeedsATokenAndAFreePort) {
  EXPECT_THROW(tcp::Rendezvous(2, {"127.0.0.1", 0}, ""), Error);
  EXPECT_THROW(tcp::Rendezvous(0, {"127.0.0.1", 0}, kToken), Error);
  const tcp::Rendezvous meeting(2, {"127.0.0.1", 0}, kToken);
  const Address taken = address_from_text("test", meeting.text());
  EXPECT_HAS(comm_error_of([&] { tcp::Rendezvous(2, taken, kToken); }),
             "cannot listen at 127.0.0.1:");
}

}  // namespace
}  // namespace mxlite
