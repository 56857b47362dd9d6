// One run of a job, from init to shutdown: negotiates the operations of this rank with the others
// and carries them out. Made, run and destroyed on the comm thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpp/jobs/control.h"
#include "cpp/jobs/negotiator.h"
#include "cpp/jobs/operation.h"
#include "cpp/jobs/operation_runner.h"
#include "cpp/jobs/request_table.h"
#include "cpp/jobs/slot_calls.h"
#include "cpp/kvstore/comm/device_communicator.h"
#include "cpp/kvstore/comm/ordered_calls.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::jobs {

struct JobOptions {
  std::string version;  // version of this mxlite; all ranks must have the same
  JobSettings settings;
  bool wait_for_cycle = false;  // rounds begin cycle_ms apart, even if none is needed
  int64_t cache_capacity = 1024;
  double stall_warning = 60;  // seconds, 0: never
  double stall_shutdown = 0;  // 0: the timeout, if one was set
  std::string timeline;       // path of the file that rank 0 writes
  bool timeline_marks_cycles = false;
  std::vector<std::vector<int>> process_sets;  // in addition to the set of all ranks
};

struct JobStats {
  uint64_t rounds = 0, responses = 0, tensors = 0, bytes = 0, cache_hits = 0;
  uint64_t nccl_tensors = 0;    // those of `tensors` that NCCL has carried
  uint64_t negotiation_ns = 0;  // from reading the inbox to the list of responses, without waits
  uint64_t collective_ns = 0;   // on GPUs only until the work is submitted
};

class Job {
 public:
  // Collective.
  Job(const WorldRequest& request, const JobOptions& options, Timeline& timeline);
  ~Job();

  // Runs until a rank shuts down or is lost.
  void loop() noexcept;
  bool rank_lost() const { return lost_; }
  // Call on the comm thread after a loss: ends ranks of this host that hang.
  void end_hung_ranks() noexcept { groups_.at(0)->end_hung_ranks(); }

  // Any thread may call these.
  RequestRef share(const Request& request) { return requests_.share(request); }
  void submit(std::vector<OperationRef> operations);
  // Reserves `count` calls that all ranks make in the same order and returns the number of the
  // first; operations with these numbers may be submitted in any order. Each channel has its own
  // numbers.
  uint64_t number_calls(size_t count, const CallChannel& channel = {});
  // Reserves the number of a call whose request has later = kGivenUp. How many numbers the graph
  // uses after it is unknown until all ranks have made the call, so number_calls waits until then.
  uint64_t number_given_up_call(const CallChannel& channel);
  void request_stop();
  // Ends the job when all ranks have called this, or when an operation needs a rank that has.
  // Until then this rank begins no operation, but takes part in the rounds of the others.
  void request_leave();
  // Returns the seconds since ranks have last carried out an operation, or this one has left.
  double idle_seconds();
  void abort(const char* reason) noexcept;
  bool ended();
  bool lost();  // whether a rank was lost or did not arrive

  const int rank, size;
  const Topology topology;
  const std::string backend;
  std::vector<int> set_members(int set);
  // Returns the device on which a collective takes an array that is on `device`: this process's GPU
  // of the job if NCCL carries it, pinned host memory for the other arrays on GPUs, else `device`.
  Device place_of(Device device, DType dtype);
  JobStats stats();
  JobSettings settings();

 private:
  explicit Job(World world, const JobOptions& options, Timeline& timeline);
  void check_versions();
  void check_process_sets();
  bool step();  // returns false at the end
  void begin_round();
  std::vector<const SharedRequest*> take_news();
  // Registers the operation under its name; returns false if the name stands for another one.
  bool open(OperationRef& operation);
  OperationRef close(const ResponseEntry& entry);  // null: not submitted on this rank
  void forget(const std::vector<uint32_t>& numbers);
  double seconds_to_next_round() const;
  void process();
  void carry_out(const Response& response);
  void announce_call(OperationRef& operation);
  void add_slots();  // gives slots to the first process sets
  // Returns whether new calls of this rank may use slots.
  bool uses_slots() const;
  void attend_slot_calls();
  void complete_slot_calls();  // withdraws those that were announced
  void withdraw(std::span<const OperationRef> completed);
  void carry_out_calls();  // runs calls that are due
  // Returns the NCCL communicator of a process set. All its ranks take part in the first call,
  // which makes it; if that fails, `problem` has the same text on all ranks.
  DeviceCommunicator* gpu_group(int set, std::string& problem);
  // Carries out operations of arrays in one memory, and notifies their owners. Throws if a rank is
  // lost; the operations are notified then, too.
  void run_operations(std::vector<OperationRef>& operations, std::span<const Request> requests);
  void look_at_gpus();
  bool gpus_busy();
  // Aborts the group. When this returns, none of the group's work uses its arrays any more.
  static void end_gpu_work(DeviceCommunicator& gpus, const char* reason) noexcept;
  void run_call(std::vector<OperationRef>& operations);
  void attend_message(const OrderedCalls::Due& due, Communicator& group);
  std::vector<Request> requests_of_all(const Request& mine, Communicator& group);
  std::string difference(const Operation& call);
  // For a call with which a rank gave up a graph: refuses the graph's later calls of the other
  // ranks.
  void refuse_later_calls(const Operation& call, std::span<const Request> requests);
  void fail_calls_of(int set);
  std::vector<Stall> stalls(double longer_than) const;
  // Ends the job if a rank shut it down, all have left, or an operation needs one that left.
  void end_if_left(std::vector<int> shutdown, const std::vector<int>& leaving);
  bool waits_for_left();  // whether an operation needs a rank that has left; once per round
  void change_sets(const Response& response, Operation& operation);
  void check_stalls();
  void sleep(uint32_t seen);
  // Notifies the owners of all operations. Allocates only the error's text.
  void end(const char* reason) noexcept;

  JobOptions options_;
  Timeline& timeline_;
  std::map<int, std::unique_ptr<Communicator>> groups_;  // by process set
  struct GpuGroup {
    std::unique_ptr<DeviceCommunicator> communicator;
    std::string problem;  // reason why `communicator` is null
  };
  Negotiator negotiator_;
  std::unique_ptr<ControlChannel> control_;
  std::map<int, GpuGroup> gpu_groups_;  // by process set; made when they are needed
  HostMemory host_memory_;
  OperationRunner runner_;
  // Maps names to operations: by number if the cache has the name, else by the request's key.
  struct Known {
    uint32_t stamp = 0;
    OperationRef operation;
  };
  std::vector<Known> known_;
  std::unordered_map<std::string_view, OperationRef> pending_;
  size_t open_ = 0;  // in both
  OrderedCalls calls_;
  const std::shared_ptr<SlotCalls> slot_calls_ = std::make_shared<SlotCalls>();
  std::map<std::pair<CallChannel, uint64_t>, OperationRef> ordered_;  // by channel and number
  std::unordered_map<std::string, std::deque<OperationRef>> queued_;  // wait for one of the same
                                                                      // name
  std::vector<OperationRef> next_;                                    // may start now
  std::vector<OperationRef> fresh_, operations_;                      // kept to reuse their memory
  std::vector<const SharedRequest*> held_;       // requests of open operations, until a cycle ends
  std::unordered_set<std::string> negotiating_;  // rows of the timeline, rank 0
  Negotiator::Announced announced_;              // marks the timeline, rank 0
  const int spins_;
  bool round_open_ = false, spun_ = false;
  bool burst_ = false;  // operations were submitted during the last round
  bool lost_ = false, stalled_ = false;
  bool give_up_ = false;  // rank 0: the next frame reports it
  bool leave_announced_ = false;
  std::vector<int> left_;  // ranks that have announced that they leave; the same on all ranks
  // Announced calls that lacked one of them in the last round; the same on all ranks.
  std::set<std::pair<CallChannel, uint64_t>> lacks_left_;
  std::atomic<bool> ranks_have_left_{false};
  Clock::time_point round_began_{}, looked_{}, stalls_checked_{}, stalls_warned_{};

  std::atomic<uint64_t> next_call_{1};  // in the channel of all ranks
  std::atomic<int> gpu_{-1};            // index of the GPU that this process uses
  RequestTable requests_;
  std::mutex mutex_;
  std::map<CallChannel, uint64_t> calls_made_;  // in other channels; guarded by mutex_
  // Channels whose last call was numbered by number_given_up_call and has not ended.
  std::set<CallChannel> given_up_;          // guarded by mutex_
  std::atomic<bool> any_given_up_{false};   // whether given_up_ has entries
  std::condition_variable given_up_ended_;  // used with mutex_
  std::vector<OperationRef> inbox_;         // guarded by mutex_
  // False while the thread waits for something and checks the inbox itself. Guarded by mutex_.
  bool needs_rings_ = true;
  bool stop_requested_ = false;                      // guarded by mutex_
  bool leave_requested_ = false;                     // guarded by mutex_
  Clock::time_point last_operation_ = Clock::now();  // guarded by mutex_
  bool ended_ = false;                               // guarded by mutex_
  std::exception_ptr cause_;                         // why the job ended; guarded by mutex_
  std::map<int, std::vector<int>> sets_;             // guarded by mutex_
  JobStats stats_;                                   // guarded by mutex_
  JobSettings settings_;                             // guarded by mutex_
};

}  // namespace mxlite::jobs
