// The scheduler of a job with servers. It counts barriers, assigns keys to servers, and ends the
// job if a lost process is not replaced in time.
#pragma once
#include <condition_variable>
#include <functional>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/members/registry.h"
#include "cpp/kvstore/server/messages.h"
#include "cpp/kvstore/server/options.h"
#include "cpp/kvstore/store/placement.h"

namespace mxlite::server {

using store::Placement;

class JobScheduler final : public members::Registry {
 public:
  // Starts to listen. Throws if the port is in use.
  explicit JobScheduler(const Options& options);
  ~JobScheduler() override { reactor_.stop(0); }

  // Runs until the job ends. Throws if the job fails. Calls `interrupted` ten times a second.
  void run(const std::function<void()>& interrupted);
  int port() const { return port_; }

 private:
  struct WaitingMember {
    ConnectionId connection;
    uint64_t request, count;
    int rank;
    Clock::time_point since;
  };

  Entry* place_for(const Registration& r, std::string& why) override;
  void take_frame(Entry& entry, const Frame& frame) override;
  void lose(Entry& entry, const std::string& why) override;
  void left(Entry& entry) override;
  void tick() override;

  void barrier(Entry& worker, const Frame& frame);
  void check_barriers();
  void place(const Entry& worker, const Frame& frame);
  bool end_if_over();  // returns whether the job has ended or failed
  std::string missing() const;

  const Options options_;
  const int port_;
  // Used only on the reactor thread.
  std::vector<WaitingMember> barrier_waits_;
  Placement placement_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point over_since_{};

  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;    // guarded by mutex_
  std::string failure_;  // guarded by mutex_
};

}  // namespace mxlite::server
