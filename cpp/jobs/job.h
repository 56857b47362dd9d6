// A job from joining to its end. In rounds, each rank announces the operations that it is ready
// for. An operation runs when all ranks of its process set are ready. The job is created, run and
// destroyed on the comm thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/jobs/negotiation.h"
#include "cpp/jobs/operation_runner.h"
#include "cpp/jobs/options.h"
#include "cpp/jobs/ordered_runner.h"
#include "cpp/jobs/request_table.h"
#include "cpp/kvstore/comm/world.h"

namespace mxlite::jobs {

struct JobStats {
  uint64_t rounds = 0, responses = 0, tensors = 0, bytes = 0, cache_hits = 0;
  uint64_t nccl_tensors = 0;    // number of `tensors` whose data went through NCCL
  uint64_t negotiation_ns = 0;  // from reading the inbox to the list of operations, no waits
  uint64_t collective_ns = 0;   // for GPUs, includes only the time to submit the work
};

class Job;
using MakeNegotiation = std::function<std::unique_ptr<Negotiation>(Job&)>;

class Job {
 public:
  // Collective. The negotiation must add the process sets that the options contain.
  Job(World world, const JobOptions& options, Timeline& timeline, const MakeNegotiation& make);
  ~Job();

  // Runs until a rank shuts down or is lost.
  void loop() noexcept;
  bool rank_lost() const { return lost_; }
  // Call on the comm thread after a rank was lost. Ends ranks of this host that hang.
  void end_hung_ranks() noexcept { sets_.group(0).end_hung_ranks(); }

  // Any thread may call the functions below.
  RequestRef share(const Request& request) { return requests_.share(request); }
  void submit(std::vector<OperationRef> operations);
  OrderedRunner& ordered_calls() { return ordered_; }
  void request_stop();
  // Tells the other ranks that this rank leaves. The job ends when all ranks have left, or when an
  // operation needs a rank that has left. Until then, this rank begins no operation but takes part
  // in the rounds of the other ranks.
  void request_leave();
  // Returns the seconds since the last operation of any rank, or the seconds since this rank has
  // left if that is less.
  double idle_seconds();
  void abort(const char* reason) noexcept;
  bool ended();
  bool lost();  // whether a rank was lost or did not arrive
  const ProcessSets& process_sets() const { return sets_; }
  // Returns the device on which collectives need the data of an array on `device`. If NCCL supports
  // the dtype of a GPU array, this is the GPU that this process uses in the job. For other GPU
  // arrays, it is pinned host memory. For all other arrays, it is `device`.
  Device place_of(Device device, DType dtype);
  JobStats stats();

  const int rank, size;
  const Topology topology;
  const std::string backend;
  const JobOptions options;  // settings are those of rank 0

  // The negotiation calls the functions below on the comm thread.
  OperationRunner& runner() { return runner_; }
  Timeline& timeline() { return timeline_; }
  // Collective over all ranks.
  void add_set(int number, const std::vector<int>& ranks);
  void remove_set(int number);  // ends the ordered calls of the set

 private:
  bool step();  // returns false when the job has ended
  void begin_round();
  void take_news();
  double seconds_to_next_round() const;
  void process();
  std::vector<Stall> stalls(double longer_than) const;
  // Ends the job if a rank has shut down the job, all ranks have left, or an operation needs a rank
  // that has left.
  void end_if_left(std::vector<int> shutdown, const std::vector<int>& leaving);
  bool waits_for_left();  // returns whether an operation needs a rank that has left; call once per
                          // round
  void check_stalls();
  void give_up();  // ends the job, because rank 0 has exceeded the waiting time
  void sleep(uint32_t seen);
  // Notifies the owners of all operations. The error text is the only allocation.
  void end(const char* reason) noexcept;

  ProcessSets sets_;
  Timeline& timeline_;
  const std::unique_ptr<ControlChannel> control_;
  OperationRunner runner_;
  OrderedRunner ordered_;
  std::unique_ptr<Negotiation> negotiation_;
  std::vector<OperationRef> fresh_;  // kept as a member only to reuse its memory
  const int spins_;
  bool round_open_ = false, spun_ = false;
  bool burst_ = false;  // whether operations were submitted during the last round
  bool lost_ = false, stalled_ = false;
  bool give_up_ = false;  // true on rank 0 if its next frame ends the job
  bool leave_announced_ = false;
  std::vector<int> left_;  // ranks that have announced that they leave; equal on all ranks
  std::atomic<bool> ranks_have_left_{false};
  Clock::time_point round_began_{}, looked_{}, stalls_checked_{}, stalls_warned_{};

  RequestTable requests_;
  std::mutex mutex_;
  std::vector<OperationRef> inbox_;  // guarded by mutex_
  // False while the comm thread polls, because the thread then checks the inbox without being rung.
  // Guarded by mutex_.
  bool needs_rings_ = true;
  bool stop_requested_ = false;                      // guarded by mutex_
  bool leave_requested_ = false;                     // guarded by mutex_
  Clock::time_point last_operation_ = Clock::now();  // guarded by mutex_
  bool ended_ = false;                               // guarded by mutex_
  std::exception_ptr cause_;                         // why the job ended; guarded by mutex_
  JobStats stats_;                                   // guarded by mutex_
};

}  // namespace mxlite::jobs
