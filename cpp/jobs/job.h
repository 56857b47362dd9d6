// One run of a job, from joining it to its end. In rounds, the ranks tell each other which
// operations they are ready for, and carry out those that all ranks of a process set are ready for.
// Made, run and destroyed on the comm thread.
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
  uint64_t negotiation_ns = 0;  // from reading the inbox to the list of operations, without waits
  uint64_t collective_ns = 0;   // on GPUs: only the time to submit the work
};

class Job;
using MakeNegotiation = std::function<std::unique_ptr<Negotiation>(Job&)>;

class Job {
 public:
  // Collective. The negotiation must add the process sets of the options.
  Job(World world, const JobOptions& options, Timeline& timeline, const MakeNegotiation& make);
  ~Job();

  // Runs until a rank shuts down or is lost.
  void loop() noexcept;
  bool rank_lost() const { return lost_; }
  // Call on the comm thread after a loss: ends ranks of this host that hang.
  void end_hung_ranks() noexcept { sets_.group(0).end_hung_ranks(); }

  // Any thread may call these.
  RequestRef share(const Request& request) { return requests_.share(request); }
  void submit(std::vector<OperationRef> operations);
  OrderedRunner& ordered_calls() { return ordered_; }
  void request_stop();
  // Ends the job when all ranks have called this, or when an operation needs a rank that has called
  // it. Until then this rank begins no operation, but takes part in the rounds of the others.
  void request_leave();
  // Returns the seconds since the last operation of any rank, or since this rank has left.
  double idle_seconds();
  void abort(const char* reason) noexcept;
  bool ended();
  bool lost();  // whether a rank was lost or did not arrive
  const ProcessSets& process_sets() const { return sets_; }
  // Returns the device on which collectives need an array that is on `device`: this process's GPU
  // of the job if NCCL carries the dtype, pinned host memory for other GPU arrays, else `device`.
  Device place_of(Device device, DType dtype);
  JobStats stats();

  const int rank, size;
  const Topology topology;
  const std::string backend;
  const JobOptions options;  // settings are those of rank 0

  // The functions below are called by the negotiation, on the comm thread.
  OperationRunner& runner() { return runner_; }
  Timeline& timeline() { return timeline_; }
  // Collective over all ranks.
  void add_set(int number, const std::vector<int>& ranks);
  void remove_set(int number);  // ends the operations of the set that are ordered calls

 private:
  bool step();  // returns false at the end
  void begin_round();
  void take_news();
  double seconds_to_next_round() const;
  void process();
  std::vector<Stall> stalls(double longer_than) const;
  // Ends the job if a rank shut it down, all have left, or an operation needs one that left.
  void end_if_left(std::vector<int> shutdown, const std::vector<int>& leaving);
  bool waits_for_left();  // whether an operation needs a rank that has left; once per round
  void check_stalls();
  void give_up();  // ends the job, because rank 0 has waited for too long
  void sleep(uint32_t seen);
  // Notifies the owners of all operations. Allocates only the error's text.
  void end(const char* reason) noexcept;

  ProcessSets sets_;
  Timeline& timeline_;
  const std::unique_ptr<ControlChannel> control_;
  OperationRunner runner_;
  OrderedRunner ordered_;
  std::unique_ptr<Negotiation> negotiation_;
  std::vector<OperationRef> fresh_;  // kept to reuse its memory
  const int spins_;
  bool round_open_ = false, spun_ = false;
  bool burst_ = false;  // operations were submitted during the last round
  bool lost_ = false, stalled_ = false;
  bool give_up_ = false;  // set on rank 0, whose next frame announces it
  bool leave_announced_ = false;
  std::vector<int> left_;  // ranks that have announced that they leave; the same on all ranks
  std::atomic<bool> ranks_have_left_{false};
  Clock::time_point round_began_{}, looked_{}, stalls_checked_{}, stalls_warned_{};

  RequestTable requests_;
  std::mutex mutex_;
  std::vector<OperationRef> inbox_;  // guarded by mutex_
  // False while the comm thread polls and checks the inbox itself. Guarded by mutex_.
  bool needs_rings_ = true;
  bool stop_requested_ = false;                      // guarded by mutex_
  bool leave_requested_ = false;                     // guarded by mutex_
  Clock::time_point last_operation_ = Clock::now();  // guarded by mutex_
  bool ended_ = false;                               // guarded by mutex_
  std::exception_ptr cause_;                         // why the job ended; guarded by mutex_
  JobStats stats_;                                   // guarded by mutex_
};

}  // namespace mxlite::jobs
