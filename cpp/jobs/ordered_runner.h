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

  // Reserves numbers for `count` calls that all ranks make in the same order. Returns the first
  // number. The operations may then be submitted in any order. Each channel counts its calls
  // separately. Any thread may call these two functions.
  uint64_t number_calls(size_t count, const CallChannel& channel = {});
  // Reserves the number of a call whose request has `later = kGivenUp`. This rank does not know how
  // many more calls the other ranks make in this run of the graph. Therefore number_calls waits
  // until all ranks have made this call.
  uint64_t number_given_up_call(const CallChannel& channel);
  SlotCalls& slots() const { return *slots_; }

  // The functions below are for the comm thread only. add_slots is collective over all ranks and
  // gives slots to all process sets. Call add_slots after all communicators exist, because
  // communicators need shared memory more than slots do: slots are optional.
  void add_slots(ControlChannel& control, bool cores_for_all);
  void remove_set(int set);  // ends the calls of the set
  // Resets the reference once the call is stored or its owner has been notified.
  void announce(OperationRef& operation);
  void attend_slots();  // completes calls and announces those that have waited too long
  bool has_news() const { return calls_.has_news(); }
  void write(FrameWriter& frame) { calls_.write(frame); }
  void read(int rank, FrameReader& frame) { calls_.read(rank, frame); }
  // Runs calls that are due. Returns whether any call was due, including calls of process sets
  // without this rank.
  bool carry_out();
  // Returns whether announced calls of this rank are pending.
  bool is_busy() const { return !announced_.empty(); }
  // Returns whether announced calls of any rank are pending.
  bool has_waiting() const { return calls_.has_waiting(); }
  std::vector<Stall> stalls(double longer_than) const;
  // Returns whether a call has waited for a rank of `left` in two successive rounds. Call once per
  // round. Between these two rounds, may_lack_left returns true.
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
  // If a rank gave up a run of a graph at `call`, refuses the calls that other ranks make later in
  // this run.
  void refuse_later_calls(const Operation& call, std::span<const Request> requests);
  void end_given_up(const std::unique_lock<std::mutex>& lock);

  const ProcessSets& sets_;
  OperationRunner& runner_;
  const JobSettings& settings_;
  OrderedCalls calls_;
  const std::shared_ptr<SlotCalls> slots_ = std::make_shared<SlotCalls>();
  std::map<Place, OperationRef> announced_;
  // Calls that waited for a rank that had left the job when `lacks` was last called. All ranks have
  // the same set of calls.
  std::set<Place> lacks_left_;

  std::atomic<uint64_t> next_call_{1};  // number of the next call in the channel of all ranks
  std::mutex mutex_;
  std::map<CallChannel, uint64_t> calls_made_;  // number of calls in each other channel; guarded by
                                                // mutex_
  // Channels whose last call was numbered by number_given_up_call and has not ended.
  std::set<CallChannel> given_up_;          // guarded by mutex_
  std::atomic<bool> any_given_up_{false};   // whether given_up_ has entries
  std::condition_variable given_up_ended_;  // used with mutex_
  bool ended_ = false;                      // guarded by mutex_
};

}  // namespace mxlite::jobs
