// Executables that hold collectives: on GPUs, with MXLITE_NCCL_GRAPHS=1, a run of one is a single
// call that all ranks of a process set make in the same order. Each rank says what it could do with
// the run, and all do the same: submit the steps one by one, record them, or replay what they have
// recorded together.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/core/shared_recording.h"
#include "cpp/core/stream.h"
#include "cpp/engine/task.h"
#include "cpp/engine/var.h"
#include "cpp/ops/collective/processes.h"
#include "cpp/ops/kernel.h"

namespace mxlite {
struct OpSchema;
}

namespace mxlite::collective {

// Carries out the collectives of one run.
class GraphCollectives {
 public:
  virtual ~GraphCollectives() = default;
  // Submits a collective to `stream`. Arrays are contiguous, blocks of the ranks follow each other
  // in memory, and input and output are not the same memory.
  virtual void run(const Terms& terms, const TensorSpec& spec, const void* input, void* output,
                   Stream& stream) = 0;
};

// Returns the bytes that run_step needs besides its operands: blocks of ranks that do not follow
// each other in the operands are copied.
size_t step_bytes(const Terms& terms, const TensorSpec& input, const TensorSpec& output);
// Submits the operator to the stream. collectives: may be null if the operator needs none.
void run_step(GraphCollectives* collectives, const OpSchema& op, const void* params,
              const TensorRef& input, const TensorRef& output, void* memory, Stream& stream);

// One run of an executable. All functions are called on the communicator's thread, with the stream
// of the communicator; the arrays stay as they are until the object is destroyed.
class GraphRun : public RefCounted {
 public:
  // Must be called first. recorded: receives what a replay could use.
  virtual GraphWay choose(Stream& stream, Recordings& recorded) = 0;
  // When a step fails, submits the later collectives nevertheless, because other ranks take part in
  // them, and then throws the error.
  virtual void run_step_by_step(Stream& stream, GraphCollectives& collectives) = 0;
  // Records the steps under a number. Returns false, and why, if that is impossible; transient: it
  // may succeed in a later run.
  virtual bool record(Stream& stream, GraphCollectives& collectives, uint64_t number,
                      std::string& why, bool& transient) = 0;
  // Another rank could not record: drops what record has made.
  virtual void drop_recording(uint64_t number) = 0;
  virtual void replay(Stream& stream, uint64_t number) = 0;
  // The holder of all recordings of the executable.
  virtual std::shared_ptr<CommunicatorUser> recordings() = 0;
};

// A run as a call to a process set. The variables are those of the arrays.
struct GraphCall {
  const char* name = "";  // static: that of the task
  int32_t process_set = 0;
  std::string text;   // names the collectives in errors
  uint64_t hash = 0;  // over all collectives with their shapes and types
  IntrusivePtr<GraphRun> run;
  Device device;
  engine::Origin origin;
  std::span<engine::Var*const> reads, overwrites, updates;
  size_t bytes = 0;  // PushOptions::bytes
};

}  // namespace mxlite::collective
