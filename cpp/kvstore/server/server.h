// A server stores parts of arrays and updates them with the pushes of workers.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "cpp/kvstore/server/job_member.h"
#include "cpp/kvstore/server/slot_pool.h"
#include "cpp/kvstore/store/server_client.h"

namespace mxlite::server {

using store::ServerHooks;

class Server {
 public:
  explicit Server(const Options& options);
  ~Server();

  // Runs until the job ends. Throws if the job fails.
  void run(const ServerHooks& hooks);

 private:
  struct Worker {
    int rank = -1;
    uint32_t incarnation = 0;
  };
  struct ProfileRequest {
    uint64_t number = 0;  // number of the worker's last command
    bool under_way = false;
    Answer answer;
  };

  void start_afresh_or_restore(const Registered& registered);
  void restore();
  void take_frame(ConnectionId id, Frame frame);
  void take_hello(ConnectionId id, const Hello& hello);
  void to_slot(ConnectionId id, const PartName& name, uint64_t request,
               std::function<void(Slot&, const Answer&)> work);
  SlotQueue* find(const PartName& name);
  SlotQueue& create(const PartName& name);
  void command(ConnectionId id, int worker, const Frame& frame);
  void obey(const Command& command);
  void profile(ConnectionId id, int worker, uint64_t request, const Command& command);
  void keep_profile_command(const Command& command);
  void on_run_thread(std::function<void(const ServerHooks&)> work);
  void save_settings();
  void answer_all_saved(ConnectionId id, uint64_t request);
  std::string report();
  void job_changed(const JobState& now);
  void tick();
  Answer answer_to(ConnectionId id, uint64_t request);

  const Options options_;
  SlotContext context_;
  Registered registered_;

  // Used only on the reactor thread.
  std::map<ConnectionId, Worker> workers_;
  std::map<std::pair<std::string, uint32_t>, std::unique_ptr<SlotQueue>> slots_;
  std::map<int, uint64_t> commands_done_;  // the key is the worker
  std::vector<Command> settings_;  // commands to repeat on a server that replaces another one
  std::map<int, ProfileRequest> profile_requests_;  // the key is the worker
  uint64_t next_file_ = 0;
  Clock::time_point looked_{};

  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;                                          // guarded by mutex_
  std::vector<std::function<void(const ServerHooks&)>> todo_;  // work for the thread in run();
                                                               // guarded by mutex_
  JobMember member_;
  SlotPool pool_;  // last member, so that its threads end before the objects that they use
};

}  // namespace mxlite::server
