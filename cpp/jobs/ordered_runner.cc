#include "cpp/jobs/ordered_runner.h"

#include <algorithm>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/engine/blocking.h"

namespace mxlite::jobs {
namespace {

std::string call_text(const Request& r, const char* place = "") {
  if (r.later == kGivenUp) return r.name + place;
  if (r.same_shapes) return str(r.name, " of ", r.dtype, shape_text(r.shape), place);
  return str(collective_name(r.kind), " of '", r.name, "' ", r.dtype, shape_text(r.shape), place);
}

// Returns a text such as "a on ranks 0, 2 and b on rank 1".
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

std::string call_name(const CallChannel& channel, uint64_t number) {
  if (channel.is_message())
    return str("message ", number, " from rank ", channel.from, " to rank ", channel.to);
  return str("call ", number, " of process set ", channel.set);
}

void fail_removed(const OperationRef& operation) {
  const std::string text = str(operation->request().name, ": process set ", operation->channel.set,
                               " was removed before the call ran");
  notify({&operation, 1}, communicator_error(text.c_str()));
}

}  // namespace

OrderedRunner::OrderedRunner(const ProcessSets& sets, OperationRunner& runner,
                             const JobSettings& settings)
    : sets_(sets),
      runner_(runner),
      settings_(settings),
      calls_(static_cast<int>(sets.find(0)->ranks.size()), [&sets](int32_t set) {
        const ProcessSet* const found = sets.find(set);
        return found ? &found->ranks : nullptr;
      }) {}

uint64_t OrderedRunner::number_calls(size_t count, const CallChannel& channel) {
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

uint64_t OrderedRunner::number_given_up_call(const CallChannel& channel) {
  const uint64_t number = number_calls(1, channel);
  std::lock_guard lock(mutex_);
  given_up_.insert(channel);
  any_given_up_.store(true, std::memory_order_release);
  return number;
}

void OrderedRunner::end_given_up(const std::unique_lock<std::mutex>&) {
  any_given_up_.store(!given_up_.empty(), std::memory_order_release);
  given_up_ended_.notify_all();
}

void OrderedRunner::refuse_later_calls(const Operation& call, std::span<const Request> requests) {
  int32_t count = 0;
  for (const Request& r : requests) count = std::max(count, r.later);
  Request request = call.request();
  for (int32_t i = 1; i <= count; ++i) {
    request.later = count - i;  // `later` of the refused call: another rank may give up the same
                                // run of the graph at this call
    auto operation = make_ref<Operation>();
    operation->asked = make_ref<const SharedRequest>(request);
    operation->channel = call.channel;
    operation->number = call.number + static_cast<uint64_t>(i);
    announce(operation);
  }
  const auto numbers = static_cast<uint64_t>(count);
  const std::unique_lock lock(mutex_);
  if (call.channel == CallChannel{})
    next_call_ += numbers;
  else
    calls_made_[call.channel] += numbers;
  given_up_.erase(call.channel);
  end_given_up(lock);
}

void OrderedRunner::add_slots(ControlChannel& control, bool cores_for_all) {
  slots_->connect(control, cores_for_all);
  for (const auto& [number, set] : sets_.by_number())
    if (set.group) slots_->add_group(number, *set.group, set.ranks);
  SlotCalls::set_current(slots_);
}

void OrderedRunner::announce(OperationRef& operation) {
  const CallChannel channel = operation->channel;
  if (!sets_.find_with_group(channel.set)) return fail_removed(operation);
  const Request& request = operation->request();
  const uint64_t number = operation->number;
  const auto place = announced_.try_emplace({channel, number}).first;
  calls_.announce({number, operation->asked->hash(), !request.failure.empty(), channel});
  place->second.swap(operation);
}

void OrderedRunner::attend_slots() {
  if (!slots_->waiting()) return;
  const auto is_announced = [this](const Operation& operation) {
    return calls_.is_announced(operation.channel, operation.number);
  };
  for (OperationRef& operation : slots_->take_overdue(is_announced)) announce(operation);
  withdraw(slots_->complete_all());
}

void OrderedRunner::withdraw(std::span<const OperationRef> completed) {
  for (const OperationRef& operation : completed) {
    calls_.withdraw(operation->channel, operation->number);
    announced_.erase({operation->channel, operation->number});
  }
}

// A call stays in announced_ until its owner is notified. If an error occurs, the job's end thus
// notifies the remaining owners. All ranks run the calls of a process set in the same order.
bool OrderedRunner::carry_out() {
  // Fuses small all-reduces of one type. The fused call runs when its bucket is full.
  struct Bucket {
    std::vector<OperationRef> operations;
    int64_t bytes = 0;
  };
  std::vector<Bucket> buckets;
  const int64_t fuse_below = std::min(settings_.fuse_below, settings_.fusion_bytes);
  const std::vector<OrderedCalls::Due> due_calls = calls_.take_due();
  for (const OrderedCalls::Due& due : due_calls) {
    const ProcessSet* const set = sets_.find_with_group(due.channel.set);
    if (!set) continue;  // this rank is not in the process set
    const auto found = announced_.find({due.channel, due.number});
    if (found == announced_.end()) {  // a message between two other ranks
      if (due.same && due.failed.empty())
        runner_.attend_message(due.channel);
      else
        requests_of_all({}, *set->group);
      continue;
    }
    OperationRef operation = found->second;
    slots_->drop(*operation);
    const Request& request = operation->request();
    if (!due.same || !due.failed.empty()) {
      notify({&operation, 1}, communicator_error(difference(*operation).c_str()));
      announced_.erase(found);
      slots_->finish(due.channel, due.number);
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
    if (fits->bytes + bytes > settings_.fusion_bytes) {
      run_call(fits->operations);
      fits->bytes = 0;
    }
    fits->operations.push_back(std::move(operation));
    fits->bytes += bytes;
  }
  for (Bucket& bucket : buckets) run_call(bucket.operations);
  slots_->wake_for_calls(has_waiting());
  return !due_calls.empty();
}

void OrderedRunner::run_call(std::vector<OperationRef>& operations) {
  std::vector<Place> places;
  for (const OperationRef& operation : operations)
    places.emplace_back(operation->channel, operation->number);
  std::vector<Request> requests;
  const Request& first = operations[0]->request();
  if (first.kind == CollectiveKind::kAllGather && !first.same_shapes)
    requests = requests_of_all(first, sets_.group(first.set));
  runner_.run(operations, requests);
  for (const Place& place : places) {
    announced_.erase(place);
    slots_->finish(place.first, place.second);
  }
}

// Collects the requests of all members for the call. Collective.
std::vector<Request> OrderedRunner::requests_of_all(const Request& mine, Communicator& group) {
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

// Returns the reason why the ranks cannot carry out a call. Collective.
std::string OrderedRunner::difference(const Operation& call) {
  const CallChannel& channel = call.channel;
  const ProcessSet& set = *sets_.find(channel.set);
  std::vector<Request> requests = requests_of_all(call.request(), *set.group);
  std::vector<int> ranks = set.ranks;
  if (channel.is_message()) {
    const auto of = [&](int r) { return requests[static_cast<size_t>(set.place_of(r))]; };
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

void OrderedRunner::remove_set(int set) {
  SlotCalls::Removed removed = slots_->remove_group(set);
  withdraw(removed.announced);
  calls_.drop(set);
  for (OperationRef& operation : removed.incomplete)
    announced_.try_emplace({operation->channel, operation->number}, std::move(operation));
  std::erase_if(announced_, [set](const auto& call) {
    if (call.first.first.set != set) return false;
    fail_removed(call.second);
    return true;
  });
  const std::unique_lock lock(mutex_);
  std::erase_if(given_up_, [set](const CallChannel& channel) { return channel.set == set; });
  end_given_up(lock);
}

std::vector<Stall> OrderedRunner::stalls(double longer_than) const {
  std::vector<Stall> found;
  for (OrderedCalls::AwaitedCall& one : calls_.waiting(longer_than)) {
    const auto mine = announced_.find({one.channel, one.number});
    found.push_back({mine == announced_.end() ? call_name(one.channel, one.number)
                                              : mine->second->request().name,
                     one.seconds, std::move(one.missing)});
  }
  return found;
}

// Returns whether a call has waited for a rank that has left, both in this round and in the
// previous round. One round is not enough, because the rank may have written its input to a slot
// before it announced the call. By the second round, such a call no longer waits. If it was
// complete, the other ranks have withdrawn it. Otherwise the rank that left has announced it,
// because that rank read the announcement in the first round.
bool OrderedRunner::lacks(const std::vector<int>& left) {
  std::set<Place> lack_left;
  for (const OrderedCalls::AwaitedCall& call : calls_.waiting(-1))  // calls of any age
    if (have_common_rank(call.missing, left)) lack_left.insert({call.channel, call.number});
  lack_left.swap(lacks_left_);
  return std::any_of(lack_left.begin(), lack_left.end(),
                     [this](const Place& call) { return lacks_left_.contains(call); });
}

void OrderedRunner::end(const std::exception_ptr& cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    given_up_ended_.notify_all();
  }
  slots_->close(cause);  // before announced_, because announced calls may be complete in slots
  for (const auto& [place, operation] : announced_) notify({&operation, 1}, cause);
  announced_.clear();
}

}  // namespace mxlite::jobs
