// Runs collective operators. Other processes decide when a call ends, and all ranks must make the
// same calls in the same order. So calls are never part of an executable, where passes could merge,
// move or drop them, and never wait inside an engine worker.
#pragma once
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cpp/ops/collective/processes.h"
#include "cpp/ops/invoke.h"

namespace mxlite::collective {

// Sets the terms of a call with these parameters, beginning with process set and peer. Throws an
// index error if an axis is out of range.
using TermsFn = void (*)(const void* params, const TensorSpec& data, Terms& terms);

// Registers the operator and its kernel for a process that is the only one.
void add(OpRegistry& ops, OpSchema schema, TermsFn terms);

bool is_collective(const OpSchema& op);
bool is_collective(const Kernel& kernel);

// Throws a shape error if `out` is given and does not match the result.
void check_out(const OpSchema& op, const TensorSpec& spec, const InvokeOptions& options);

// Returns the terms of a call with these parameters.
Terms terms_of(const OpSchema& op, const void* params, const TensorSpec& data);
// Returns whether a call with these terms needs no staging copy: it is not a message, and the block
// of each rank is contiguous in `data` and in `result`.
bool runs_in_place(const Terms& terms, const TensorSpec& data, const TensorSpec& result);

// Runs a call together with other processes. `spec` describes the result.
NDArrays run(Processes& processes, const OpSchema& op, const void* params, const NDArrayRef& input,
             const TensorSpec& spec, const InvokeOptions& options);

// Announces that this rank cannot make a call: other ranks that make the call get an error. Does
// nothing for operators that are not collective. Also does nothing inside a PositionScope, where
// the graph announces failures.
void announce_failure(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                      const char* reason) noexcept;

// While a BackwardScope exists, calls that its thread makes outside of graphs count as backward
// calls. If one rank makes a call in forward and another rank in backward, both ranks get an error.
class BackwardScope {
 public:
  BackwardScope();
  ~BackwardScope();
  BackwardScope& operator=(BackwardScope&&) = delete;  // neither copied nor moved

 private:
  const bool outer_;
};

// Identifies calls that are numbered together: the calls of a process set, or messages with a rank.
using Channel = std::tuple<int32_t, Kind, int32_t>;
Channel channel_of(const Terms& terms);

// Position of a call in one run of a graph.
struct Position {
  int later = 0;  // see Terms::later
  // Whether the call already has a number in its channel. If the run fails after that, giving up
  // begins with the next call.
  bool started = false;
};
// While a PositionScope exists, the next call of its thread is the call at `position` (not owned).
class PositionScope {
 public:
  explicit PositionScope(Position& position);
  ~PositionScope();
  PositionScope& operator=(PositionScope&&) = delete;  // neither copied nor moved
};

// Calls that this rank will still make in one run of a graph, as far as known.
class PlannedCalls {
 public:
  // Does nothing if `op` is not a collective operator.
  void add(const OpSchema& op, ParamsRef params, const TensorSpec& data);
  // Announces that the run has failed on this rank. On the other ranks, all calls of the run in the
  // channels of the planned calls fail with `reason`.
  void give_up(const std::string& reason) const noexcept;

 private:
  struct Planned {
    const OpSchema* op;
    ParamsRef params;
    TensorSpec data;
  };
  std::vector<Planned> calls_;
};

// Collects the collective operators that this thread traces during the lifetime of the object.
class TracedCalls {
 public:
  TracedCalls();
  ~TracedCalls();
  TracedCalls& operator=(TracedCalls&&) = delete;  // neither copied nor moved

  // Must be called if the trace has failed, so that give_up_failed_trace gives up the collected
  // calls.
  void keep() noexcept { kept() = std::move(calls_); }

 private:
  friend void note_traced(const OpSchema& op, const ParamsRef& params, const TensorSpec& data);
  friend void give_up_failed_trace(const std::string& reason) noexcept;
  friend void forget_failed_trace() noexcept;
  static PlannedCalls& kept();  // one object per thread

  PlannedCalls calls_;
  TracedCalls* const outer_;
};
// Must be called before the shapes of a traced operator are inferred.
void note_traced(const OpSchema& op, const ParamsRef& params, const TensorSpec& data);
// Must be called if tracing a forward pass has failed on this thread. The collectives that the
// trace has reached then fail with `reason` on the other ranks.
void give_up_failed_trace(const std::string& reason) noexcept;
void forget_failed_trace() noexcept;

// Returns the text of the exception that is being handled, or an empty text if it is not a
// std::exception.
std::string text_of_current_exception();

}  // namespace mxlite::collective
