// The rendezvous of a job over several hosts without MPI. The launcher runs it. Every process
// registers with its rank and the address at which it accepts connections, and receives the
// addresses of all processes. Its connection stays open, so that the rendezvous can report
// processes that end or stop responding.
#pragma once
#include <string>

#include "cpp/kvstore/comm/members/registry.h"

namespace mxlite::tcp {

inline constexpr int kMostProcesses = 4096;
inline constexpr members::JobKind kHostsJob = {
    "job rendezvous",     "the launcher",     "rank",
    "MXLITE_JOB_ADDRESS", "MXLITE_JOB_TOKEN", "MXLITE_COMM_TIMEOUT"};

class Rendezvous final : public members::Registry {
 public:
  // Starts to listen, only on the interface of `address`. Port 0 selects a free port. Throws a
  // communicator error if listening fails, and a value error if the token is empty.
  Rendezvous(int processes, const Address& address, const std::string& token);
  ~Rendezvous() override { reactor_.stop(0); }

  std::string text() const { return address_text(address_); }  // "host:port"

 private:
  Entry* place_for(const members::Registration& r, std::string& why) override;
  void take_frame(Entry& entry, const Frame& frame) override;
  void lose(Entry& entry, const std::string& why) override;
  void left(Entry& entry) override;
  void tick() override;
  std::string missing() const;

  const Address address_;
};

}  // namespace mxlite::tcp
