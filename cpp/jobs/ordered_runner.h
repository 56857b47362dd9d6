// Runs the calls that all ranks of a process set make in the same order.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cpp/jobs/negotiation.h"
#include "cpp/jobs/operation_runner.h"
#include "cpp/jobs/options.h"
#include "cpp/jobs/slot_calls.h"
#include "cpp/kvstore/comm/ordered_calls.h"

namespace mxlite::jobs {

class OrderedRunner {
 public:
  OrderedRunner(const ProcessSets& sets, OperationRunner& runner, const JobSettings& settings);

  // Any thread may call these.
  // Reserves `count` calls that all ranks make in the same order and returns the number of the
  // first; operations with these numbers may be submitted in any order. Each channel has its own
  // numbers.
  uint64_t number_calls(size_t count, const CallChannel& channel = {});
  // Reserves the number of a call whose request has later = kGivenUp. How many numbers the graph
  // uses after it is unknown until all ranks have made the call, so number_calls waits until then.
  uint64_t number_given_up_call(const CallChannel& channel);
  SlotCalls& slots() const { return *slots_; }

  // The functions below are for the comm thread only.
  // Collective over all ranks: gives slots to all process sets. Without slots the job works, too:
  // call when all communicators exist, which must not lack the memory that slots take.
  void add_slots(ControlChannel& control, bool cores_for_all);
  void remove_set(int set);  // ends its calls
  // The reference becomes null once the operation is kept or its owner is notified.
  void announce(OperationRef& operation);
  void attend_slots();  // completes calls, and announces those that wait for long
  bool has_news() const { return calls_.has_news(); }
  void write(FrameWriter& frame) { calls_.write(frame); }
  void read(int rank, FrameReader& frame) { calls_.read(rank, frame); }
  // Runs calls that are due; returns whether there were any, perhaps of sets without this rank.
  bool carry_out();
  // Returns whether calls of this rank have been announced and have not ended.
  bool is_busy() const { return !announced_.empty(); }
  // Returns whether calls of any rank have been announced and have not ended.
  bool has_waiting() const { return calls_.has_waiting(); }
  std::vector<Stall> stalls(double longer_than) const;
  // Returns whether a call lacks one of the ranks that have left in two rounds in a row; call once
  // per round. In between, may_lack_left returns true.
  bool lacks(const std::vector<int>& left);
  bool may_lack_left() const { return !lacks_left_.empty(); }
  // Notifies the owners of all calls.
  void end(const std::exception_ptr& cause) noexcept;

 private:
  using Place = std::pair<CallChannel, uint64_t>;  // channel and number

  void withdraw(std::span<const OperationRef> completed);
  void run_call(std::vector<OperationRef>& operations);
  std::vector<Request> requests_of_all(const Request& mine, Communicator& group);
  std::string difference(const Operation& call);
  // For a call with which a rank gave up a graph: refuses the graph's later calls of the other
  // ranks.
  void refuse_later_calls(const Operation& call, std::span<const Request> requests);
  void end_given_up(const std::unique_lock<std::mutex>& lock);

  const ProcessSets& sets_;
  OperationRunner& runner_;
  const JobSettings& settings_;
  OrderedCalls calls_;
  const std::shared_ptr<SlotCalls> slots_ = std::make_shared<SlotCalls>();
  std::map<Place, OperationRef> announced_;
  // Announced calls that lacked a rank that has left in the last round; the same on all ranks.
  std::set<Place> lacks_left_;

  std::atomic<uint64_t> next_call_{1};  // in the channel of all ranks
  std::mutex mutex_;
  std::map<CallChannel, uint64_t> calls_made_;  // in other channels; guarded by mutex_
  // Channels whose last call was numbered by number_given_up_call and has not ended.
  std::set<CallChannel> given_up_;          // guarded by mutex_
  std::atomic<bool> any_given_up_{false};   // whether given_up_ has entries
  std::condition_variable given_up_ended_;  // used with mutex_
  bool ended_ = false;                      // guarded by mutex_
};

}  // namespace mxlite::jobs
