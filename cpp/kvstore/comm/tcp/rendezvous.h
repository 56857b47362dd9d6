// The meeting point of a job over several hosts without MPI; the launcher runs it. Every process
// registers with its rank and the address at which it accepts others, gets the table of all, and
// keeps its connection: the rendezvous notices processes that end or are silent and names them to
// all others.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/tcp/link.h"

namespace mxlite::tcp {

class Rendezvous {
 public:
  // Listens from here on, on the interface of this address only; port 0 selects a free one. Throws
  // a communicator error if it cannot, and a value error for an empty token.
  Rendezvous(int processes, const TcpAddress& address, const std::string& token);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  std::string text() const { return address_text(local_address(listener_)); }  // "host:port"

 private:
  enum class Status : uint8_t { kMissing, kPresent, kLeft, kLost };
  struct Member {
    Status status = Status::kMissing;
    Registration registration;
    Clock::time_point since{}, heard{};
  };
  struct Connection {
    Connection(Socket socket, const SealKey& key) : link(std::move(socket), key, true) {}
    Link link;
    int rank = -1;  // until it has registered
    Clock::time_point since = Clock::now();
    bool closing = false;  // once the queued frames are sent
  };

  void loop() noexcept;
  void step();
  void accept();
  std::list<Connection>::iterator oldest_stranger();
  bool has_room();            // for a new connection
  size_t strangers() const;   // connections that have not registered
  bool serve(Connection& c);  // returns false when the connection is to be closed
  void take_frame(Connection& c, const WireFrame& frame);
  void take_registration(Connection& c, Registration registration);
  void refuse(Connection& c, const std::string& why);
  void refuse_all(const std::string& why);
  void lose(int rank, const std::string& why);
  void check_times();
  void send_all(FrameKind kind, const Body& body);
  std::string missing() const;
  std::string shortage_text() const;
  std::string where(int rank) const;  // "host a, process 12"
  Member& member(int rank) { return members_[static_cast<size_t>(rank)]; }

  const SealKey key_;
  Socket listener_, wake_reader_, wake_writer_;
  std::vector<Member> members_;
  std::list<Connection> connections_;
  bool started_ = false;  // all have registered
  std::string refusal_;   // why the job cannot start any more
  int shortage_ = 0;      // the error, if the last attempt to accept found no descriptor
  Clock::time_point accept_again_{};  // no attempt before
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace mxlite::tcp
