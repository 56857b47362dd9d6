// Ranks of jobs over several hosts, for tests: their places, and one without a communicator.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "cpp/kvstore/comm/tcp/rendezvous.h"
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"

namespace mxlite {

inline constexpr const char* kToken = "the token of the job";

inline tcp::JobPlace place_of(const tcp::Rendezvous& meeting, int rank, int size) {
  return {address_from_text("test", meeting.text()), kToken, rank, size, "", "host"};
}

// Speaks to the rendezvous as rank 1 of 2 until it is destroyed.
class Impostor {
 public:
  Impostor(const tcp::Rendezvous& meeting, const std::string& token, const tcp::Registration& r)
      : link_(connected(meeting), key_of_secret(token), /*accepted=*/false) {
    link_.send(tcp::FrameKind::kRegister, encode(r));
  }
  // Sends and receives for a while.
  void pump() {
    for (const Deadline end(0.3); !end.over();) {
      link_.move();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  // Returns the next frame; nothing if the connection is closed first.
  std::optional<tcp::WireFrame> next() {
    for (bool open = true; open;) {
      open = link_.move();
      if (auto frame = link_.take()) return frame;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return std::nullopt;
  }

 private:
  static tcp::Socket connected(const tcp::Rendezvous& meeting) {
    std::string trouble;
    tcp::Socket socket = tcp::connect_to(address_from_text("test", meeting.text()), trouble);
    EXPECT_TRUE(socket) << trouble;
    return socket;
  }
  tcp::Link link_;
};

inline tcp::Registration registration(int rank, int size) {
  return {rank, size, "elsewhere", "127.0.0.1:9", 4711, 60, 60};
}

}  // namespace mxlite
