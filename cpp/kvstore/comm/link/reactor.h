// Runs the connections of one process on a reactor thread. Sends frames by priority. Passes
// complete, checked frames to handlers on that thread. Forks of the process have no connections.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cpp/kvstore/comm/link/address.h"
#include "cpp/kvstore/comm/link/clock.h"
#include "cpp/kvstore/comm/link/frame_filter.h"
#include "cpp/kvstore/comm/link/socket.h"

namespace mxlite {

// Maximum number of open connections that have not sent hello.
inline constexpr size_t kMostStrangers = 256;

struct Traffic {
  uint64_t sent_frames = 0, sent_bytes = 0, received_frames = 0, received_bytes = 0;
  uint64_t refused_connections = 0;  // connections closed because of invalid frames
  std::array<uint64_t, kNumBadFrames> bad = {};
};

class Reactor {
 public:
  struct Handlers {
    std::function<void(ConnectionId)> opened = [](ConnectionId) {};  // called after connecting or
                                                                     // accepting
    std::function<void(ConnectionId, Frame)> frame;  // if it throws a FrameError, the connection is
                                                     // closed
    // Called after a connection was closed. `is_invalid` is true if the peer has sent invalid data.
    std::function<void(ConnectionId, const std::string& why, bool is_invalid)> closed;
    std::function<void()> tick = [] {};  // called every 20 ms
  };

  // `process` is the name of this process in messages, such as "the scheduler".
  Reactor(const SealKey& key, std::string process);
  ~Reactor();
  Reactor& operator=(Reactor&&) = delete;  // neither copied nor moved

  // Call before start.
  void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }
  Address listen(const Address& address);  // returns the numeric address with the actual port
  void start(const char* thread_name);
  // Sends pending frames for at most `flush_seconds`, and then ends the thread. Idempotent.
  void stop(double flush_seconds = 1) noexcept;

  // Any thread may call the functions below.
  ConnectionId new_id() { return next_id_++; }
  // Handlers may be called for the connection before this function returns, so store the id of the
  // connection first.
  void connect(ConnectionId id, const Address& address);
  void send(ConnectionId connection, Frame frame);
  void close(ConnectionId connection, const std::string& why);
  void post(std::function<void()> work);
  template <class F>
  void run(F&& work) {  // runs immediately if called on the reactor thread
    if (on_thread())
      work();
    else
      post_move(std::forward<F>(work));
  }
  void set_epoch(uint32_t epoch) { epoch_ = epoch; }
  Traffic traffic();
  bool is_in_fork() const;  // true in a fork, where only stop may be called

  // The functions below must be called on the reactor thread.
  void accept_hello(ConnectionId connection);  // keeps the connection open, but does not trust
                                               // the peer yet
  void trust(ConnectionId connection);         // allows the peer to send any frame
  // Closes the connection after all frames were sent. No more frames are delivered.
  void finish(ConnectionId connection);
  // Passes the socket of a connection that is not trusted to the caller. Bytes after the last frame
  // have not been read. Returns an empty Socket if the connection is closed or if frames wait to be
  // written.
  Socket release(ConnectionId connection);
  bool quiet(ConnectionId connection);  // returns whether no frame waits to be written
  // Returns the reason why connections wait to be accepted, or an empty text if none waits.
  std::string shortage_text() const;
  // Returns the errno of a failed accept if a connection waits for a descriptor and no stranger (a
  // connection without hello) can be dropped to free a descriptor.
  int shortage() const;

 private:
  template <class F>
  void post_move(F&& work) {
    auto shared = std::make_shared<std::decay_t<F>>(std::forward<F>(work));
    post([shared] { (*shared)(); });
  }
  struct Network;  // keeps Asio out of this header
  struct Connection;

  void loop();
  void accept(size_t listener);
  bool has_room();  // returns whether another connection without hello may be accepted
  void note_accepted(const std::error_code& error);
  void begin(Connection& c);  // call when the socket is connected
  void await_read(Connection& c);
  void await_write(Connection& c);
  void read(Connection& c);
  size_t read_preamble(Connection& c, std::span<const std::byte> bytes);
  bool write_preamble(Connection& c);  // returns the same as write
  bool write(Connection& c);           // returns false if the connection is gone
  void deliver(ConnectionId id, Frame frame);
  void refuse(ConnectionId id, const Error& error);  // ends the connection
  void hand_over(ConnectionId id, Frame frame);
  void pass(ConnectionId id, Frame frame);  // ends the connection if the handler throws
  void drop(ConnectionId id, const std::string& why, bool is_invalid = false);
  std::shared_ptr<Connection> remove(ConnectionId id);
  void await_tick();
  void tick();
  void stop_when_sent();
  Connection* find(ConnectionId id);
  bool on_thread() const { return std::this_thread::get_id() == thread_id_; }
  void count_bad(BadFrame kind);

  const SealKey key_;
  const std::string process_;
  const int owner_;  // PID of the process that made this object
  const std::unique_ptr<FrameFilter> filter_;
  Handlers handlers_;
  std::unique_ptr<Network> network_;
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint64_t> next_id_{1};
  uint64_t next_order_ = 0;
  // Used only on the reactor thread.
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  size_t strangers_ = 0;  // accepted connections without hello
  int shortage_ = 0;      // errno of the last accept if it found no free descriptor, else 0
  std::vector<std::byte> staging_;
  bool stopping_ = false;
  Clock::time_point flush_until_{};

  std::mutex mutex_;
  Traffic traffic_;            // guarded by mutex_
  std::thread::id thread_id_;  // set by start
  std::thread thread_;
};

}  // namespace mxlite
