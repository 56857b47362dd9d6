// Runs the calls that all ranks of a process set make in the same order.
#include <algorithm>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"
#include "cpp/jobs/job.h"
#include "cpp/jobs/stall_text.h"
#include "cpp/jobs/validate.h"

namespace mxlite::jobs {
namespace {

std::string call_text(const Request& r, const char* place = "") {
  if (r.later == kGivenUp) return r.name + place;
  if (r.same_shapes) return str(r.name, " of ", r.dtype, shape_text(r.shape), place);
  return str(collective_name(r.kind), " of '", r.name, "' ", r.dtype, shape_text(r.shape), place);
}

// Returns "a on ranks 0, 2 and b on rank 1".
std::string calls_by_rank(std::span<const Request> requests, std::span<const int> ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> calls;
  const bool places_differ = std::any_of(requests.begin(), requests.end(), [&](const Request& r) {
    return (r.device < 0) != (requests[0].device < 0);
  });
  for (size_t i = 0; i < requests.size(); ++i) {
    const char* place = requests[i].device < 0 ? " on the CPU" : " on a GPU";
    const std::string text = call_text(requests[i], places_differ ? place : "");
    auto known = std::find_if(calls.begin(), calls.end(),
                              [&](const auto& call) { return call.first == text; });
    if (known == calls.end()) known = calls.insert(calls.end(), {text, {}});
    known->second.push_back(ranks[i]);
  }
  std::string text;
  for (const auto& [call, callers] : calls)
    text += str(text.empty() ? "" : " and ", call, " on ", ranks_text(callers));
  return text;
}

int position_of(std::span<const int> members, int rank) {
  return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

}  // namespace

uint64_t Job::number_calls(size_t count, const CallChannel& channel) {
  if (any_given_up_.load(std::memory_order_acquire)) {
    std::unique_lock lock(mutex_);
    engine::wait_interruptibly(lock, given_up_ended_,
                               [&] { return ended_ || !given_up_.contains(channel); });
  }
  if (channel == CallChannel{}) return next_call_.fetch_add(count);
  std::lock_guard lock(mutex_);
  uint64_t& made = calls_made_[channel];
  made += count;
  return made - count + 1;
}

uint64_t Job::number_given_up_call(const CallChannel& channel) {
  const uint64_t number = number_calls(1, channel);
  std::lock_guard lock(mutex_);
  given_up_.insert(channel);
  any_given_up_.store(true, std::memory_order_release);
  return number;
}

void Job::refuse_later_calls(const Operation& call, std::span<const Request> requests) {
  int32_t count = 0;
  for (const Request& r : requests) count = std::max(count, r.later);
  Request request = call.request();
  for (int32_t i = 1; i <= count; ++i) {
    request.later = count - i;  // another rank may give up the same run at this call
    auto operation = make_ref<Operation>();
    operation->asked = make_ref<const SharedRequest>(request);
    operation->channel = call.channel;
    operation->number = call.number + static_cast<uint64_t>(i);
    announce_call(operation);
  }
  const auto numbers = static_cast<uint64_t>(count);
  std::lock_guard lock(mutex_);
  if (call.channel == CallChannel{})
    next_call_ += numbers;
  else
    calls_made_[call.channel] += numbers;
  given_up_.erase(call.channel);
  any_given_up_.store(!given_up_.empty(), std::memory_order_release);
  given_up_ended_.notify_all();
}

void Job::announce_call(OperationRef& operation) {
  const uint64_t number = operation->number;
  const CallChannel channel = operation->channel;
  const Request& request = operation->request();
  const auto group = groups_.find(channel.set);
  if (group == groups_.end() || !group->second) {
    const std::string text =
        str(request.name, ": process set ", channel.set, " was removed before the call ran");
    return notify({&operation, 1}, communicator_error(text.c_str()));
  }
  const auto place = ordered_.try_emplace({channel, number}).first;
  calls_.announce({number, call_hash(request), !request.failure.empty(), channel});
  place->second.swap(operation);
}

// Called when all communicators exist: the job works without slots, and must not lack the memory
// that they take.
void Job::add_slots() {
  for (const auto& [number, group] : groups_)
    if (group) slot_calls_->add_group(number, *group, sets_[number]);
  SlotCalls::set_current(slot_calls_);
}

bool Job::uses_slots() const {
  // Ranks that have left wait for the others as long as they see them negotiate. The timeline shows
  // what the comm thread does.
  return !ranks_have_left_.load(std::memory_order_relaxed) && !timeline_.runs();
}

void Job::attend_slot_calls() {
  if (!slot_calls_->waiting()) return;
  const auto is_announced = [this](const Operation& operation) {
    return calls_.is_announced(operation.channel, operation.number);
  };
  for (OperationRef& operation : slot_calls_->take_overdue(is_announced)) announce_call(operation);
  complete_slot_calls();
}

void Job::complete_slot_calls() { withdraw(slot_calls_->complete_all()); }

void Job::withdraw(std::span<const OperationRef> completed) {
  for (const OperationRef& operation : completed) {
    calls_.withdraw(operation->channel, operation->number);
    ordered_.erase({operation->channel, operation->number});
  }
}

// Calls stay in ordered_ until their owners are notified: after an error the end of the job
// notifies the rest. Every rank takes the calls of its process sets in the same order.
void Job::carry_out_calls() {
  // Fuses small all-reduces of one type, in the position where the bucket is full.
  struct Bucket {
    std::vector<OperationRef> operations;
    int64_t bytes = 0;
  };
  std::vector<Bucket> buckets;
  const JobSettings& settings = negotiator_.settings();
  const int64_t fuse_below = std::min(settings.fuse_below, settings.fusion_bytes);
  const std::vector<OrderedCalls::Due> due_calls = calls_.take_due();
  if (!due_calls.empty()) {  // those of process sets without this rank count as well
    std::lock_guard lock(mutex_);
    last_operation_ = Clock::now();
  }
  for (const OrderedCalls::Due& due : due_calls) {
    const auto group = groups_.find(due.channel.set);
    if (group == groups_.end() || !group->second) continue;  // this rank is no member
    const auto found = ordered_.find({due.channel, due.number});
    if (found == ordered_.end()) {
      attend_message(due, *group->second);
      continue;
    }
    OperationRef operation = found->second;
    slot_calls_->drop(*operation);
    const Request& request = operation->request();
    if (!due.same || !due.failed.empty()) {
      notify({&operation, 1}, communicator_error(difference(*operation).c_str()));
      ordered_.erase(found);
      slot_calls_->finish(due.channel, due.number);
      continue;
    }
    const auto bytes = static_cast<int64_t>(operation->asked->bytes);
    if (request.kind != CollectiveKind::kAllReduce || bytes >= fuse_below || operation->is_bucket) {
      std::vector<OperationRef> one = {std::move(operation)};
      run_call(one);
      continue;
    }
    auto fits = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
      const Request& first = b.operations[0]->request();
      return first.set == request.set && first.dtype == request.dtype && first.op == request.op &&
             first.device == request.device && first.prescale == request.prescale &&
             first.postscale == request.postscale;
    });
    if (fits == buckets.end()) fits = buckets.insert(fits, Bucket{});
    if (fits->bytes + bytes > settings.fusion_bytes) {
      run_call(fits->operations);
      fits->bytes = 0;
    }
    fits->operations.push_back(std::move(operation));
    fits->bytes += bytes;
  }
  for (Bucket& bucket : buckets) run_call(bucket.operations);
}

void Job::run_call(std::vector<OperationRef>& operations) {
  std::vector<std::pair<CallChannel, uint64_t>> places;
  for (const OperationRef& operation : operations)
    places.emplace_back(operation->channel, operation->number);
  std::vector<Request> requests;
  const Request& first = operations[0]->request();
  if (first.kind == CollectiveKind::kAllGather && !first.same_shapes)
    requests = requests_of_all(first, *groups_.at(first.set));
  run_operations(operations, requests);
  for (const auto& place : places) {
    ordered_.erase(place);
    slot_calls_->finish(place.first, place.second);
  }
}

// A message between two other ranks of a group is a collective of the whole group.
void Job::attend_message(const OrderedCalls::Due& due, Communicator& group) {
  const std::vector<int>& members = negotiator_.members(due.channel.set);
  if (!due.same || !due.failed.empty()) {
    requests_of_all({}, group);
    return;
  }
  group.describe(str("message from rank ", due.channel.from, " to rank ", due.channel.to));
  runner_.message(nullptr, {group, host_memory_}, position_of(members, due.channel.from),
                  position_of(members, due.channel.to));
}

// Collective: collects each member's request for the call.
std::vector<Request> Job::requests_of_all(const Request& mine, Communicator& group) {
  group.describe(mine.name);
  FrameWriter writer;
  write_request(writer, mine);
  const std::vector<std::byte> sent = writer.take();
  const uint64_t my_bytes = sent.size();
  std::vector<size_t> sizes(static_cast<size_t>(group.size()));
  static_assert(sizeof(size_t) == sizeof my_bytes);
  group.all_gather(&my_bytes, sizes.data(), std::vector<size_t>(sizes.size(), sizeof my_bytes));
  std::vector<std::byte> all(std::accumulate(sizes.begin(), sizes.end(), size_t{0}));
  group.all_gather(sent.data(), all.data(), sizes);
  FrameReader reader(all, kNegotiationFrame);
  std::vector<Request> requests;
  for (size_t r = 0; r < sizes.size(); ++r) requests.push_back(read_request(reader));
  return requests;
}

// Collective: returns why the ranks cannot carry out a call.
std::string Job::difference(const Operation& call) {
  const CallChannel& channel = call.channel;
  std::vector<Request> requests = requests_of_all(call.request(), *groups_.at(channel.set));
  std::vector<int> ranks = negotiator_.members(channel.set);
  if (channel.is_message()) {
    const auto of = [&](int r) { return requests[static_cast<size_t>(position_of(ranks, r))]; };
    requests = {of(channel.from), of(channel.to)};
    ranks = {channel.from, channel.to};
  }
  if (call.request().later == kGivenUp) refuse_later_calls(call, requests);
  const bool of_operators =
      std::any_of(requests.begin(), requests.end(), [](const Request& r) { return r.same_shapes; });
  if (!of_operators) {
    const bool same_call = std::all_of(requests.begin(), requests.end(), [&](const Request& r) {
      return r.name == requests[0].name && r.kind == requests[0].kind;
    });
    const std::string text = same_call ? mismatch(requests, ranks) : "";
    if (!text.empty()) return text;
  }
  std::string failures;
  for (size_t i = 0; of_operators && i < requests.size(); ++i)
    if (!requests[i].failure.empty())
      failures += str(failures.empty() ? "" : "; ", call_text(requests[i]), ": rank ", ranks[i],
                      " cannot take part: ", requests[i].failure);
  if (!failures.empty()) return failures;
  return str("the ranks do not make the same calls in the same order: call ", call.number,
             channel.set == 0 ? "" : str(" of process set ", channel.set), " is ",
             calls_by_rank(requests, ranks),
             "; every rank must make the same calls in the same order");
}

// The process set has been removed.
void Job::fail_calls_of(int set) {
  SlotCalls::Removed removed = slot_calls_->remove_group(set);
  withdraw(removed.announced);
  calls_.drop(set);
  for (OperationRef& operation : removed.incomplete)
    ordered_.try_emplace({operation->channel, operation->number}, std::move(operation));
  for (auto at = ordered_.begin(); at != ordered_.end();) {
    if (at->first.first.set != set) {
      ++at;
      continue;
    }
    const std::string text =
        str(at->second->request().name, ": process set ", set, " was removed before the call ran");
    notify({&at->second, 1}, communicator_error(text.c_str()));
    at = ordered_.erase(at);
  }
  std::lock_guard lock(mutex_);
  std::erase_if(given_up_, [set](const CallChannel& channel) { return channel.set == set; });
  any_given_up_.store(!given_up_.empty(), std::memory_order_release);
  given_up_ended_.notify_all();
}

}  // namespace mxlite::jobs
