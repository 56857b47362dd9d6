// Calls on small arrays that the thread which finds them ready carries out itself, without the comm
// thread and without a negotiation. Note [Slot calls] says why this cannot deadlock and why all
// ranks come to the same results.
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
// A rank begins an ordered call in one of two ways: it shows its input in a slot (SlotRing), or it
// announces the call in the negotiation (OrderedCalls). If all ranks have shown the same call, each
// computes its result from the slots. Else the call is negotiated: a rank that has shown its input
// also announces the call when another rank has shown a different call, has announced this one, or
// has done neither for kAnnounceAfter. From then on only the comm thread may complete the call. All
// ranks use the same way: the last rank to show its input sees all slots and never announces the
// call, so a call that is complete in slots never becomes due in the negotiation; and if a rank has
// announced the call without showing its input, the slots stay incomplete for all ranks. A rank
// that completes an announced call withdraws the announcement.
//
// No thread waits for another rank longer than kSpin: a call that is not complete stays in a list,
// and a worker of the engine continues with other tasks. So calls of several process sets may
// become ready in different orders on different ranks, and an input of one may need the only worker
// while another one is incomplete. The worker checks the list after each task and, for kSpin,
// before it sleeps. Then the comm thread checks it; other ranks ring this thread when they show an
// input. While the worker runs a long task, only the comm thread checks, every 20 ms.
class SlotCalls {
 public:
  // `control` must outlive this object. If its ranks cannot ring each other, take returns false.
  void connect(ControlChannel& control, bool cores_for_all);
  // Collective over the group, on the comm thread. `ranks`: its members in the job. If there is no
  // memory for the slots, take returns false for the group's calls.
  void add_group(int set, Communicator& group, const std::vector<int>& ranks);
  struct Removed {
    std::vector<OperationRef> announced;   // completed calls of any set that were announced
    std::vector<OperationRef> incomplete;  // calls of the removed set
  };
  // Completes calls, and then removes the incomplete calls of the process set from the list; take
  // returns false for later ones. No other thread can complete a call in between.
  Removed remove_group(int set);
  // Completes calls, because other ranks may have completed them already, and notifies the owners
  // of incomplete ones with `cause`. Afterwards take returns false.
  void close(const std::exception_ptr& cause) noexcept;

  // Any thread. Runs the call now, or stores it until it is complete; then notifies its owner.
  // Returns false without any effect if the call must be announced.
  bool take(const OperationRef& operation);
  // Any thread: completes calls. If `idle`, the caller has nothing else to do and should call again
  // while this returns true.
  bool poll(bool idle);
  // Polls for at most kSpin, for a thread that will not poll again.
  void poll_briefly();
  // Returns whether calls are incomplete.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  // Returns whether there has been a call. Calls do not wake the comm thread, so after the first
  // one it must check often.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Makes `poll_current` poll this object while it exists. A worker that polls keeps only this
  // object alive and not the job, whose communicators must be destroyed on the comm thread; after
  // close this object does not use the job.
  static void set_current(const std::shared_ptr<SlotCalls>& calls);
  static bool poll_current(bool idle);

  // The functions below are for the comm thread only.
  // If `wake`, a call that stays incomplete wakes the comm thread at once. Needed while some ranks
  // have announced a call and others have not, because the latter may have to announce it, too.
  void wake_for_calls(bool wake) { wakes_.store(wake); }
  // Completes calls; returns those that were announced.
  std::vector<OperationRef> complete_all();
  // Returns the calls that must be announced now. `is_announced`: whether other ranks announced it.
  std::vector<OperationRef> take_overdue(const std::function<bool(const Operation&)>& is_announced);
  // Removes a call that the negotiation carries out or has refused.
  void drop(const Operation& operation);
  // Call when a call of this channel has ended in the negotiation.
  void finish(const CallChannel& channel, uint64_t number);

  struct Counts {
    uint64_t calls = 0, bytes = 0;
  };
  Counts counts();

 private:
  struct Group {
    std::unique_ptr<shm::SlotRing> slots;
    std::vector<int> ranks;  // in the job
  };
  struct WaitingOperation {
    OperationRef operation;
    Group* group = nullptr;
    Clock::time_point since;
    bool announced = false;
  };
  static bool suits(const Operation& operation, const shm::SlotRing& slots);
  // The lock arguments show that mutex_ is held. Computes the results of complete calls and moves
  // the calls from list_ to `done` or, if they were announced, to `done_announced`.
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
  std::map<int, Group> groups_;  // by process set; this and all below: guarded by mutex_
  std::vector<WaitingOperation> list_;
  std::vector<const void*> inputs_;  // kept to reuse its memory
  Clock::time_point spin_until_{};
  bool asks_for_rings_ = false;
  bool differs_ = false;  // another rank has shown a different call than list_
  Counts counts_;
};

}  // namespace mxlite::jobs
