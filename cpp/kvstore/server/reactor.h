// The sockets of one process, on a thread of their own: sends frames by priority, and delivers
// whole, checked frames. Handlers run on that thread.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/server/address.h"
#include "cpp/kvstore/server/frame_filter.h"

namespace mxlite::server {

// Connections without hello that are accepted at once.
inline constexpr size_t kMostStrangers = 256;

struct Traffic {
  uint64_t sent_frames = 0, sent_bytes = 0, received_frames = 0, received_bytes = 0;
  uint64_t refused_connections = 0;  // closed because of invalid frames
  std::array<uint64_t, kNumBadFrames> bad = {};
};

class Reactor {
 public:
  struct Handlers {
    std::function<void(ConnectionId)> opened = [](ConnectionId) {};  // connected or accepted
    std::function<void(ConnectionId, Frame)> frame;  // a FrameError from it ends the connection
    std::function<void(ConnectionId, const std::string& why)> closed;
    std::function<void()> tick = [] {};  // called every 20 ms
  };

  explicit Reactor(const SealKey& key);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Call before start.
  void set_handlers(Handlers handlers) { handlers_ = std::move(handlers); }
  int listen(const Address& address);  // returns the port
  void start(const char* thread_name);
  // Sends pending frames for at most the given seconds, and ends the thread. Idempotent.
  void stop(double flush_seconds = 1) noexcept;

  // Any thread may call these.
  ConnectionId new_id() { return next_id_++; }
  // Handlers may see the connection before this returns, so pass them its number first.
  void connect(ConnectionId id, const Address& address);
  void send(ConnectionId connection, Frame frame);
  void close(ConnectionId connection, const std::string& why);
  void post(std::function<void()> work);
  template <class F>
  void run(F&& work) {  // at once on the reactor thread
    if (on_thread())
      work();
    else
      post_move(std::forward<F>(work));
  }
  void set_epoch(uint32_t epoch) { epoch_ = epoch; }
  Traffic traffic();

  // Call only on the reactor thread.
  void trust(ConnectionId connection);  // the peer has sent hello
  bool quiet(ConnectionId connection);  // whether no frame waits to be written
  // Returns why connections wait to be accepted; empty if they do not.
  std::string shortage_text() const;

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
  void note_accepted(const std::error_code& error);
  void begin(Connection& c);  // the socket is connected
  void await_read(Connection& c);
  void await_write(Connection& c);
  void read(Connection& c);
  size_t read_preamble(Connection& c, std::span<const std::byte> bytes);
  bool write_preamble(Connection& c);  // returns like write
  bool write(Connection& c);           // returns false if the connection is gone
  void deliver(ConnectionId id, Frame frame);
  void hand_over(ConnectionId id, Frame frame);
  void pass(ConnectionId id, Frame frame);  // ends the connection if hand_over throws
  void drop(ConnectionId id, const std::string& why);
  void await_tick();
  void tick();
  void stop_when_sent();
  Connection* find(ConnectionId id);
  bool on_thread() const { return std::this_thread::get_id() == thread_id_; }
  void count_bad(BadFrame kind);

  const SealKey key_;
  const std::unique_ptr<FrameFilter> filter_;
  Handlers handlers_;
  const std::unique_ptr<Network> network_;
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint64_t> next_id_{1};
  uint64_t next_order_ = 0;
  // Used only on the reactor thread.
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  size_t strangers_ = 0;  // accepted connections without hello
  int shortage_ = 0;      // the error, if the last attempt to accept found no descriptor
  std::vector<std::byte> staging_;
  bool stopping_ = false;
  Clock::time_point flush_until_{};

  std::mutex mutex_;
  Traffic traffic_;            // guarded by mutex_
  std::thread::id thread_id_;  // set by start
  std::thread thread_;
};

}  // namespace mxlite::server
