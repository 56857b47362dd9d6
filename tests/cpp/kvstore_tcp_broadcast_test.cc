// How processes of a job without MPI find each other. Processes are threads here.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cpp/base/error.h"
#include "cpp/kvstore/comm/device_group.h"
#include "cpp/kvstore/comm/tcp_broadcast.h"

namespace mxlite {
namespace {

// Shortens the timeout, which the first wait reads.
[[maybe_unused]] const int kShortTimeout = setenv("MXLITE_COMM_TIMEOUT", "3", 1);

// One that was free just now.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

using Id = std::array<char, 128>;

TEST(TcpBroadcast, EveryProcessGetsWhatTheFirstHas) {
  constexpr int kProcesses = 5;
  const int port = free_port();
  std::vector<Id> ids(kProcesses);
  ids[0].fill('x');
  std::vector<std::thread> threads;
  for (int p = kProcesses; p-- > 0;)  // the first process comes last
    threads.emplace_back([&, p] {
      const DeviceBootstrap b = bootstrap_through_tcp("127.0.0.1", port, p, kProcesses, 2);
      EXPECT_EQ(b.first_rank, 2 * p);
      EXPECT_EQ(b.size, 2 * kProcesses);
      b.broadcast(ids[static_cast<size_t>(p)].data(), sizeof(Id));
    });
  for (std::thread& t : threads) t.join();
  for (const Id& id : ids) EXPECT_EQ(id, ids[0]);
}

TEST(TcpBroadcast, StrangersOnThePortAreNotServed) {
  const int port = free_port();
  Id sent{}, got{};
  sent.fill('y');
  std::thread server([&] { tcp_broadcast({"127.0.0.1", port}, 0, 2, sent.data(), sizeof sent); });
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = -1;
  for (int i = 0; i < 100; ++i) {
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
    close(fd);
    fd = -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_GE(fd, 0);
  const std::string nonsense(64, 'z');
  ASSERT_EQ(send(fd, nonsense.data(), nonsense.size(), 0), static_cast<ssize_t>(nonsense.size()));
  tcp_broadcast({"127.0.0.1", port}, 1, 2, got.data(), sizeof got);
  server.join();
  char byte = 0;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);  // closed without an answer
  close(fd);
  EXPECT_EQ(got, sent);
}

TEST(TcpBroadcast, AnotherJobOnThePortIsAnError) {
  const int port = free_port();
  Id a{}, b{};
  std::thread wrong([&] {
    // This client expects 3 processes; the test ignores its result.
    try {
      tcp_broadcast({"127.0.0.1", port}, 1, 3, b.data(), sizeof b);
    } catch (const Error&) {
    }
  });
  try {
    tcp_broadcast({"127.0.0.1", port}, 0, 2, a.data(), sizeof a);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("process 1 of 3"), std::string::npos) << e.what();
  }
  wrong.join();
}

TEST(DeviceGroup, WithoutAGpuTheErrorNamesTheBuildOption) {
  if (has_device_groups()) GTEST_SKIP() << "there is a GPU";
  try {
    make_device_group({0});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("MXLITE_CUDA=ON"), std::string::npos) << e.what();
  }
}

}  // namespace

}  // namespace mxlite
