// Ranks of jobs over several hosts, for tests, and a rank without a communicator.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "cpp/kvstore/comm/tcp/rendezvous.h"
#include "cpp/kvstore/comm/tcp/tcp_communicator.h"
#include "tests/cpp/shm_ranks.h"

namespace mxlite {

inline constexpr const char* kToken = "the token of the job";

inline tcp::JobPlace place_of(const tcp::Rendezvous& meeting, int rank, int size) {
  return {address_from_text("test", meeting.text()), kToken, rank, size, "", "host"};
}

inline members::Registration registration(int rank, int size) {
  members::Registration r;
  r.rank = rank;
  r.num_workers = size;
  r.host = "elsewhere";
  r.address = "127.0.0.1:9";
  r.process = 4711;
  r.timeout = r.silence = 60;
  return r;
}

inline void on_tcp(int ranks, const RankBody& body) {
  const tcp::Rendezvous meeting(ranks, {"127.0.0.1", 0}, kToken);
  run_threads(ranks, [&](int rank) {
    const auto job = std::make_shared<tcp::Job>(place_of(meeting, rank, ranks));
    body(*tcp::make_communicator(job));
  });
}

// A rank that registers with the rendezvous and sends no heartbeats.
class Impostor : public members::Member {
 public:
  Impostor(const tcp::Rendezvous& meeting, const std::string& token, const members::Registration& r)
      : Member(tcp::kHostsJob, {address_from_text("test", meeting.text()), key_of_secret(token), "",
                                10, /*heartbeat=*/1e9, 1, r}) {}
  ~Impostor() override { stop(0); }
  Impostor& joined() {
    join("impostor");
    return *this;
  }
  // Returns the state of a rank once it is not alive any more.
  members::MemberState end_of(int rank) {
    for (const Deadline end(5); !end.over();) {
      const auto all = state().workers;
      const auto i = static_cast<size_t>(rank);
      if (i < all.size() && all[i].status != members::MemberStatus::kAlive) return all[i];
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return {};
  }

 protected:
  void take_frame(ConnectionId, Frame) override {}
};

}  // namespace mxlite
