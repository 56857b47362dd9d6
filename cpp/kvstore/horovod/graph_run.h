// One run of an executable that holds collectives, as the session sees it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/intrusive_ptr.h"
#include "cpp/core/shared_recording.h"
#include "cpp/kvstore/comm/device_communicator.h"

namespace mxlite::horovod {

// Functions are called on the comm thread, choose first. Work is submitted to the group's stream;
// the arrays stay until the object is destroyed.
class GraphRun : public RefCounted {
 public:
  // recorded: receives what replay could use.
  virtual GraphWay choose(Stream& stream, Recordings& recorded) = 0;
  // members: ranks of the group in the job. An error of a step is thrown once all collectives are
  // submitted, in which other ranks take part.
  virtual void run_step_by_step(DeviceCommunicator& group, std::span<const int> members) = 0;
  // Returns false, and why, if the steps cannot be recorded. transient: they may be in a later run.
  virtual bool record(DeviceCommunicator& group, std::span<const int> members, uint64_t number,
                      std::string& why, bool& transient) = 0;
  // Another rank could not record.
  virtual void drop_recording(uint64_t number) = 0;
  virtual void replay(Stream& stream, uint64_t number) = 0;
  // Whether the group failed while a collective was submitted: it cannot be used any more.
  virtual bool group_failed() const = 0;
  virtual std::shared_ptr<CommunicatorUser> recordings() = 0;
};

}  // namespace mxlite::horovod
