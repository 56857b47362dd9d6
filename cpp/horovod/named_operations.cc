#include "cpp/horovod/named_operations.h"

#include "cpp/base/error.h"

namespace mxlite::horovod {

using jobs::communicator_error;
using jobs::notify;

NamedOperations::NamedOperations(jobs::Job& job)
    : job_(job), negotiator_(job.rank, job.size, job.options.settings) {
  for (const auto& ranks : job.options.process_sets) {
    for (const int r : ranks)
      MX_CHECK(r >= 0 && r < job.size, "ranks of a process set must be in [0, ", job.size - 1,
               "], as the job has ", job.size, " processes, got ", r);
    MX_CHECK(!negotiator_.find_set(ranks), "process sets must be distinct, got that of ",
             jobs::ranks_text(ranks), " twice");
    job.add_set(negotiator_.add_set(ranks), ranks);
  }
  announced_ = [this](int from, const Request& r) {
    if (negotiating_.insert(r.key()).second)
      job_.timeline().begin(r.name, str("NEGOTIATE_", jobs::activity_name(r.kind)));
    job_.timeline().instant(r.name, std::to_string(from));
  };
}

std::unique_ptr<jobs::Negotiation> negotiate_by_name(jobs::Job& job) {
  return std::make_unique<NamedOperations>(job);
}

void NamedOperations::take(OperationRef& operation) {
  const SharedRequest* asked = operation->asked.get();
  if (open(operation)) {
    news_.push_back(asked);
  } else if (operation->queues) {
    queued_[asked->terms.key()].push_back(std::move(operation));
  } else {
    const std::string error =
        str(jobs::collective_name(asked->terms.kind), ": the tensor '", asked->terms.name,
            "' has the same name as another tensor that is currently being processed on rank ",
            job_.rank, "; give each its own name, or wait for the first");
    notify({&operation, 1}, communicator_error(error.c_str()));
  }
}

bool NamedOperations::open(OperationRef& operation) {
  const SharedRequest& asked = *operation->asked;
  const CacheNumber number = negotiator_.number_of(asked);
  if (!pending_.empty() && pending_.count(asked.terms.key()) > 0) return false;
  if (number.index == jobs::kNoNumber) {
    const auto place = pending_.try_emplace(asked.terms.key(), nullptr).first;
    place->second.swap(operation);
  } else {
    if (known_.size() <= number.index) known_.resize(number.index + 1);
    Known& place = known_[number.index];
    if (place.operation) return false;
    place.stamp = number.stamp;
    place.operation.swap(operation);
  }
  ++open_;
  return true;
}

OperationRef NamedOperations::close(const ResponseEntry& entry) {
  const uint32_t index = entry.number.index;
  OperationRef operation;
  if (index < known_.size() && known_[index].operation &&
      known_[index].stamp == entry.number.stamp) {
    operation.swap(known_[index].operation);
  } else {
    const auto found = pending_.find(entry.first().key());
    if (found == pending_.end()) return nullptr;
    operation.swap(found->second);
    pending_.erase(found);
  }
  --open_;
  return operation;
}

// Moves operations to the map by name after the cache has dropped their
// numbers.
void NamedOperations::find_by_name(const std::vector<uint32_t>& forgotten) {
  for (const uint32_t index : forgotten) {
    if (index >= known_.size() || !known_[index].operation) continue;
    OperationRef& operation = known_[index].operation;
    pending_.try_emplace(operation->request().key(), nullptr).first->second.swap(operation);
  }
}

std::vector<std::byte> NamedOperations::make_frame() {
  std::vector<std::byte> frame = negotiator_.make_frame(news_);
  news_.clear();
  return frame;
}

void NamedOperations::read(const std::vector<std::vector<std::byte>>& frames) {
  const bool marks = job_.rank == 0 && job_.timeline().runs();
  Negotiator::Outcome outcome = negotiator_.process(frames, marks ? &announced_ : nullptr);
  find_by_name(outcome.forgotten);
  responses_ = std::move(outcome.responses);
}

bool NamedOperations::carry_out() {
  for (const Response& response : responses_) carry_out(response);
  for (OperationRef& operation : next_) take(operation);
  next_.clear();
  return !responses_.empty();
}

void NamedOperations::carry_out(const Response& response) {
  operations_.clear();
  // Reserves memory first, because an operation that is already closed would be lost after an
  // error.
  operations_.reserve(response.entries.size());
  for (const ResponseEntry& entry : response.entries) {
    if (!negotiating_.empty() && negotiating_.erase(entry.first().key()) > 0)
      job_.timeline().end(entry.first().name);
    OperationRef operation = close(entry);
    if (!operation) continue;
    operations_.push_back(std::move(operation));
    if (queued_.empty()) continue;
    if (const auto waiting = queued_.find(entry.first().key()); waiting != queued_.end()) {
      next_.push_back(std::move(waiting->second.front()));
      waiting->second.pop_front();
      if (waiting->second.empty()) queued_.erase(waiting);
    }
  }
  if (operations_.empty()) return;  // no operation belongs to a process set of this rank
  if (!response.error.empty()) {
    notify(operations_, communicator_error(response.error.c_str()));
    return operations_.clear();
  }
  MX_ASSERT(operations_.size() == response.entries.size() &&
            job_.process_sets().find(response.set));
  if (response.kind != CollectiveKind::kAddSet && response.kind != CollectiveKind::kRemoveSet)
    return job_.runner().run(operations_, *response.entries[0].requests);
  change_sets(response, *operations_[0]);
  notify(operations_, nullptr);
  operations_.clear();
}

void NamedOperations::change_sets(const Response& response, Operation& operation) {
  const std::vector<int64_t>& splits = operation.request().splits;
  if (response.kind == CollectiveKind::kRemoveSet)
    return job_.remove_set(static_cast<int>(splits[0]));
  const std::vector<int> ranks(splits.begin(), splits.end());
  operation.set_number = *negotiator_.find_set(ranks);
  job_.process_sets().group(0).describe(operation.request().name);
  job_.add_set(operation.set_number, ranks);
}

void NamedOperations::end(const std::exception_ptr& cause) noexcept {
  // After an error within a step, some operations are only in operations_ or next_.
  for (const auto* operations : {&operations_, &next_}) notify(*operations, cause);
  for (const Known& known : known_) notify({&known.operation, 1}, cause);
  for (const auto& [key, operation] : pending_) notify({&operation, 1}, cause);
  for (const auto& [key, operations] : queued_)
    for (const OperationRef& operation : operations) notify({&operation, 1}, cause);
  operations_.clear();
  next_.clear();
  known_.clear();
  pending_.clear();
  queued_.clear();
  open_ = 0;
}

}  // namespace mxlite::horovod
