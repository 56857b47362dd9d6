// Interface between collective operators and the processes of a job. Operators describe their
// calls; cpp/python, which joins the job, provides the implementation.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "cpp/engine/task.h"
#include "cpp/ndarray/ndarray.h"

namespace mxlite::collective {

enum class Kind : uint8_t {
  kAllReduce,
  kReduce,  // all ranks except the root get zeros
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kReceive,
  kNone,  // no communication in forward, only in the gradient
};
enum class Reduction : uint8_t { kSum, kMean, kProduct, kMin, kMax };

// Value of Terms::later if this rank gives up the run of a graph that contains the call.
inline constexpr int kGivenUp = -1;

// The request of one operator to a process set. All fields but `later` are equal on all ranks.
struct Terms {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  int32_t process_set = 0;
  int32_t peer = 0;                   // root, source or destination: a rank of the job
  int split_axis = 0, join_axis = 0;  // axes, in range, along which the ranks' parts are split or
                                      // joined
  std::string text;                   // the call in error messages: "all_gather(axis=1)"
  int later = 0;  // how many calls of the same channel follow in this run of a graph
};

// The ranks of a process set to which this process belongs.
struct ProcessGroup {
  std::vector<int> ranks;  // rank numbers of the job
  int rank = 0;            // this process's rank in the job

  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
  bool has(int64_t r) const;
};

// One call of this rank. Arrays are contiguous and on the device that Processes::place_of returns;
// blocks of the ranks follow each other in memory.
struct CollectiveCall {
  const char* op = "";  // static text
  Terms terms;
  TensorSpec spec;           // spec of the operator's argument
  NDArrayRef input, output;  // input is null if a message is received
  engine::Origin origin;
};

// Is notified of the end of each call that a task has made.
class CallOwner {
 public:
  // Must be called once for each begun call, on any thread and perhaps before `begin` returns.
  // `position` is the argument of `begin`; the error is null on success.
  virtual void call_ended(size_t position, std::exception_ptr error) noexcept = 0;

 protected:
  ~CallOwner() = default;
};

// A call in one run of a graph. After `number`, either begin or refuse must be called.
class PendingCall : public RefCounted {
 public:
  // Gives the call the next number of its process set.
  virtual void number() = 0;
  // Makes the call. The arrays are contiguous, and the input has been computed. `owner` and `task`
  // are the same object; the implementation holds `task` until `call_ended` has returned.
  virtual void begin(CallOwner& owner, size_t position, engine::TaskRef task, NDArrayRef input,
                     NDArrayRef output) = 0;
  // Reports that this rank cannot take part, because computing an operand has failed.
  virtual void refuse(const std::exception_ptr& cause) noexcept = 0;
};
using PendingCallRef = IntrusivePtr<PendingCall>;

// A call that each run of a graph makes in the same way.
class PreparedCall : public RefCounted {
 public:
  // Returns null if the process is no longer in the job for which the call was prepared.
  virtual PendingCallRef make() const = 0;
};
using PreparedCallRef = IntrusivePtr<const PreparedCall>;

class Processes {
 public:
  virtual ~Processes() = default;
  // Returns whether this process has joined a job. Throws a communicator error if it was started
  // as one of several and has not joined them.
  virtual bool running() const = 0;
  // Returns the ranks of a process set. Throws a value error if it does not exist.
  virtual ProcessGroup group(int32_t process_set) const = 0;
  // Returns the device on which a call needs its arrays if the operator runs on `device`.
  virtual Device place_of(Kind kind, DType dtype, Device device) const = 0;
  // Gives the call the next number of its process set and pushes a task that writes the output.
  virtual void start(CollectiveCall call) = 0;
  // Prepares calls for arrays in host memory. Messages cannot be prepared.
  virtual PreparedCallRef prepare(const Terms& terms, const TensorSpec& spec) = 0;
  // Gives the call the next number and reports that this rank cannot take part, so that other ranks
  // do not wait. If `later` of the call is kGivenUp, the calls that follow it on the other ranks in
  // the same run of a graph also get numbers and fail.
  virtual void refuse(CollectiveCall call, const std::string& reason) = 0;
};

// The object must live until the process ends. Before this call, this process counts as the only
// process.
void set_processes(Processes* processes);
// Returns null if this process is the only one.
Processes* running_processes();

// Returns the group of a call. Throws a value error that names the operator if this process is not
// in the group. Without a job, process set 0 is the only one.
ProcessGroup group_of(const char* op, int32_t process_set);

}  // namespace mxlite::collective
