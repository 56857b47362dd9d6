// Runs calls on small arrays without the comm thread or a negotiation. The thread that finds a call
// ready runs it. Note [Slot calls] explains why ranks cannot deadlock and get equal results.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/jobs/control.h"
#include "cpp/jobs/operation.h"
#include "cpp/kvstore/comm/deadline.h"
#include "cpp/kvstore/comm/shm/slot_ring.h"

namespace mxlite::jobs {

// Note [Slot calls]
// A rank begins an ordered call in one of two ways. Either it shows its input in a slot (SlotRing),
// or it announces the call in the negotiation (OrderedCalls). If all ranks have shown the same
// call, each rank computes its result from the slots. Otherwise the call is negotiated. A rank that
// has shown its input then also announces the call in three cases: another rank has shown a
// different call, has announced this call, or has done neither for kAnnounceAfter. From then on,
// only the comm thread may complete the call. All ranks use the same way for two reasons. First,
// the last rank to show its input sees all slots and never announces the call. A call that is
// complete in slots thus never becomes due in the negotiation. Second, if a rank has announced the
// call without showing its input, the slots stay incomplete for all ranks. A rank that completes an
// announced call withdraws the announcement.
//
// No thread waits for another rank longer than kSpin. An incomplete call stays in a list, and a
// worker of the engine continues with other tasks. Calls of several process sets may therefore
// become ready in different orders on different ranks. The input of a call may need the only worker
// while another call is incomplete. The worker checks the list after each task and, for kSpin,
// before it sleeps. Afterwards the comm thread checks the list, and other ranks ring this thread
// when they show an input. While the worker runs a long task, only the comm thread checks the list,
// every 20 ms.
class SlotCalls {
 public:
  // `control` must outlive this object. If the ranks of `control` cannot ring each other, `take`
  // always returns false.
  void connect(ControlChannel& control, bool cores_for_all);
  // Gives slots to a process set. Collective over the group, on the comm thread. `ranks` are the
  // members of the group in the job. If no memory for slots is available, `take` returns false for
  // the group's calls.
  void add_group(int set, Communicator& group, const std::vector<int>& ranks);
  struct Removed {
    std::vector<OperationRef> announced;   // complete calls of any set that had been announced
    std::vector<OperationRef> incomplete;  // incomplete calls of the removed set
  };
  // Completes calls, then removes the incomplete calls of the process set. For later calls of the
  // set, `take` returns false. No other thread completes a call during this function.
  Removed remove_group(int set);
  // Completes calls that other ranks may already have completed. Notifies the owners of incomplete
  // calls with `cause`. Afterwards `take` returns false.
  void close(const std::exception_ptr& cause) noexcept;

  // Runs the call now, or stores it until it is complete. Then notifies its owner. Returns false
  // without any effect if the call must be announced. Any thread may call this function.
  bool take(const OperationRef& operation);
  // Completes calls. `idle` means that the caller has no other work and calls this function again
  // as long as it returns true. Any thread may call it.
  bool poll(bool idle);
  // Polls for at most kSpin. Call on threads that do not poll regularly.
  void poll_briefly();
  // Returns whether any call is incomplete.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  // Returns whether any call has been made. Calls do not wake the comm thread, so this thread must
  // check often after the first call.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Makes `poll_current` poll this object while the object exists. A polling worker keeps only this
  // object alive and not the job, because the job's communicators must be destroyed on the comm
  // thread. After `close`, this object does not use the job.
  static void set_current(const std::shared_ptr<SlotCalls>& calls);
  static bool poll_current(bool idle);

  // The functions below are for the comm thread only. If `wake` is true, each call that stays
  // incomplete wakes the comm thread immediately. This is needed while some ranks have announced a
  // call and other ranks may also have to announce it.
  void wake_for_calls(bool wake) { wakes_.store(wake); }
  // Completes calls and returns the calls that were announced.
  std::vector<OperationRef> complete_all();
  // Returns the calls that must be announced now. `is_announced` returns whether other ranks have
  // announced a call.
  std::vector<OperationRef> take_overdue(const std::function<bool(const Operation&)>& is_announced);
  // Removes a call that the negotiation runs or has refused.
  void drop(const Operation& operation);
  // Must be called after the negotiation has ended a call of this channel.
  void finish(const CallChannel& channel, uint64_t number);

  struct Counts {
    uint64_t calls = 0, bytes = 0;
  };
  Counts counts();

 private:
  struct Group {
    std::unique_ptr<shm::SlotRing> slots;
    std::vector<int> ranks;  // rank numbers of the job
  };
  struct WaitingOperation {
    OperationRef operation;
    Group* group = nullptr;
    Clock::time_point since;
    bool announced = false;
  };
  static bool suits(const Operation& operation, const shm::SlotRing& slots);
  // Computes the results of complete calls. Moves the calls from list_ to `done` or, if they were
  // announced, to `done_announced`. The argument `lock` shows that mutex_ is held.
  void complete(const std::unique_lock<std::mutex>& lock, bool announced_too,
                std::vector<OperationRef>& done, std::vector<OperationRef>* done_announced);
  void carry_out(Operation& operation, Group& group);
  void leave_to_comm_thread(const std::unique_lock<std::mutex>& lock,
                            std::vector<OperationRef>& done);
  void list_has_changed(const std::unique_lock<std::mutex>& lock);
  void ask_for_rings(const std::unique_lock<std::mutex>& lock, bool ask);

  ControlChannel* control_ = nullptr;
  Clock::duration spin_{};
  static inline std::atomic<size_t> all_waiting_{0};  // sum over all objects
  std::atomic<size_t> waiting_{0};                    // size of list_
  std::atomic<bool> used_{false}, wakes_{false};
  std::mutex mutex_;
  std::map<int, Group> groups_;  // keys: process sets; guarded by mutex_, like all below
  std::vector<WaitingOperation> list_;
  std::vector<const void*> inputs_;  // kept as a member only to reuse its memory
  Clock::time_point spin_until_{};
  bool asks_for_rings_ = false;
  bool differs_ = false;  // whether another rank has shown a call that is not in list_
  Counts counts_;
};

}  // namespace mxlite::jobs
