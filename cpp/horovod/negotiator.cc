#include "cpp/horovod/negotiator.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "cpp/base/error.h"
#include "cpp/jobs/process_sets.h"

namespace mxlite::horovod {

using jobs::collective_name;
using jobs::kNegotiationFrame;
using jobs::kNoNumber;
using jobs::Stall;

Negotiator::Negotiator(int rank, int size, const jobs::JobSettings& settings)
    : rank_(rank), size_(size), settings_(settings) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  sets_[0] = std::move(all);
}

size_t Negotiator::place_in_set(int rank, int set) const {
  if (set == 0) return static_cast<size_t>(rank);
  const auto found = sets_.find(set);
  MX_CHECK_KIND(found != sets_.end(), ErrorKind::kCommunicator, "process set ", set,
                " does not exist");
  const auto place = std::find(found->second.begin(), found->second.end(), rank);
  MX_CHECK_KIND(place != found->second.end(), ErrorKind::kCommunicator, "rank ", rank,
                " is not in process set ", set);
  return static_cast<size_t>(place - found->second.begin());
}

uint32_t Negotiator::index_of(const SharedRequest& request) const {
  const uint32_t last = request.number;
  if (last < cache_.size() && cache_[last] && cache_[last]->mine.get() == &request) return last;
  const auto found = cache_by_name_.find(request.terms.key());
  return found == cache_by_name_.end() ? kNoNumber : found->second;
}

CacheNumber Negotiator::number_of(const SharedRequest& request) const {
  const uint32_t index = index_of(request);
  if (index == kNoNumber) return {};
  return {index, cache_[index]->stamp};
}

bool Negotiator::goes_by_number(const SharedRequest& request) {
  const uint32_t index = index_of(request);
  if (index == kNoNumber) return false;
  Cached& cached = *cache_[index];
  if (cached.mine.get() == &request) return true;
  const std::vector<int>& ranks = members(request.terms.set);
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end() ||
      !(*cached.requests)[static_cast<size_t>(place - ranks.begin())].same_terms(request.terms))
    return false;
  request.number = index;
  cached.mine = RequestRef(&request);
  return true;
}

std::vector<std::byte> Negotiator::make_frame(std::vector<const SharedRequest*> news) {
  const auto before = [](const SharedRequest* a, const SharedRequest* b) {
    return a->terms.priority > b->terms.priority;
  };
  if (!std::is_sorted(news.begin(), news.end(), before))
    std::stable_sort(news.begin(), news.end(), before);
  numbers_.clear();  // pairs of first number and length
  full_.clear();
  for (const SharedRequest* request : news) {
    if (!goes_by_number(*request))
      full_.push_back(request);
    else if (!numbers_.empty() && request->number == *(numbers_.end() - 2) + numbers_.back())
      ++numbers_.back();
    else
      numbers_.insert(numbers_.end(), {request->number, 1});
  }
  FrameWriter frame;
  frame.number(static_cast<uint32_t>(numbers_.size() / 2));
  for (const uint32_t number : numbers_) frame.number(number);
  frame.number(static_cast<uint32_t>(full_.size()));
  for (const SharedRequest* request : full_) jobs::write_request(frame, request->terms);
  return frame.take();
}

Negotiator::Outcome Negotiator::process(const std::vector<std::vector<std::byte>>& frames,
                                        const Announced* announced) {
  Outcome outcome;
  ready_.clear();
  now_ = Clock::now();
  announced_ = announced;
  for (int rank = 0; rank < size_; ++rank) {
    FrameReader frame(frames[static_cast<size_t>(rank)], kNegotiationFrame);
    for (uint32_t runs = frame.count(2 * sizeof(uint32_t)); runs > 0; --runs) {
      const auto first = frame.number<uint32_t>();
      const auto count = frame.number<uint32_t>();
      MX_CHECK_KIND(first < cache_.size() && count <= cache_.size() - first,
                    ErrorKind::kCommunicator, kNegotiationFrame,
                    " must contain request numbers below ", cache_.size(), ", got ", count,
                    " numbers from ", first);
      for (uint32_t id = first; id < first + count; ++id) announce_cached(rank, id);
    }
    for (uint32_t n = frame.count(1); n > 0; --n) announce(rank, jobs::read_request(frame));
    MX_CHECK_KIND(frame.at_end(), ErrorKind::kCommunicator, kNegotiationFrame,
                  " must end after its last entry, got more bytes");
  }
  for (const auto& requests : to_remember_) remember(requests);
  to_remember_.clear();
  dropped_.clear();
  outcome.responses = fused();
  outcome.forgotten.swap(forgotten_);
  return outcome;
}

// Refuses requests for removed process sets and requests from ranks that are not members of the
// set.
bool Negotiator::refuse_stranger(int rank, const Request& request) {
  const auto set = sets_.find(request.set);
  if (set == sets_.end()) {
    refuse(request, str("there is no process set ", request.set, " any more"));
    return true;
  }
  if (std::find(set->second.begin(), set->second.end(), rank) != set->second.end()) return false;
  refuse(request, str("rank ", rank, " is not in process set ", request.set));
  return true;
}

void Negotiator::refuse(const Request& request, const std::string& why) {
  ResponseEntry entry;
  entry.requests = std::make_shared<const std::vector<Request>>(std::vector<Request>{request});
  ready_.push_back({std::move(entry), Fusion(request),
                    str(collective_name(request.kind), " of '", request.name, "': ", why)});
}

void Negotiator::announce(int rank, Request request) {
  if (refuse_stranger(rank, request)) return;
  if (announced_) (*announced_)(rank, request);
  const std::string key = request.key();
  // A request with a cached name has other terms than the cached terms. Drops the cached terms.
  // Ranks that have announced the cached number count as ranks that sent the old terms.
  if (const auto found = cache_by_name_.find(key); found != cache_by_name_.end()) {
    const uint32_t id = found->second;
    const std::shared_ptr<const std::vector<Request>> old = cache_[id]->requests;
    const std::span<const uint8_t> old_marks = marks(id);
    const Clock::time_point since = cache_[id]->since;
    dropped_[id] = old;
    forget(id);
    const std::vector<int>& ranks = members(request.set);
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (old_marks[static_cast<size_t>(ranks[i])] != kAnnounced) continue;
      AnnouncedName& pending = pending_[key];
      pending.requests.resize(ranks.size());
      pending.since = since;
      pending.requests[i] = (*old)[i];
      ++pending.announced;
    }
  }
  const size_t place = place_in_set(rank, request.set);
  const int set = request.set;
  AnnouncedName& pending = pending_[key];
  pending.requests.resize(members(set).size());
  if (!pending.requests[place]) ++pending.announced;
  pending.requests[place] = std::move(request);
  if (pending.announced < pending.requests.size()) return;
  auto all = std::make_shared<std::vector<Request>>();
  for (auto& one : pending.requests) all->push_back(std::move(*one));
  pending_.erase(key);
  std::string error = jobs::mismatch(*all, members(set));
  if (error.empty()) to_remember_.push_back(all);
  become_ready({std::move(all), {}}, std::move(error));
}

void Negotiator::announce_cached(int rank, uint32_t id) {
  if (!dropped_.empty())
    if (const auto old = dropped_.find(id); old != dropped_.end()) {
      const Request& first = old->second->front();
      const size_t place = has_set(first.set) ? place_in_set(rank, first.set) : 0;
      return announce(rank, (*old->second)[place]);
    }
  MX_CHECK_KIND(cache_[id], ErrorKind::kCommunicator, kNegotiationFrame,
                " must contain known numbers of requests, got ", id);
  Cached& cached = *cache_[id];
  const std::span<uint8_t> ranks = marks(id);
  uint8_t& mark = ranks[static_cast<size_t>(rank)];
  if (announced_ || mark == kStranger)  // refuses ranks that are not members
    if (const size_t place = place_in_set(rank, cached.fusion.set); announced_)
      (*announced_)(rank, (*cached.requests)[place]);
  ++cache_hits_;
  if (mark == kAnnounced) return;
  mark = kAnnounced;
  if (cached.announced == 0) cached.since = now_;
  if (++cached.announced < cached.members) return;
  for (uint8_t& each : ranks)
    if (each == kAnnounced) each = kSilent;
  cached.announced = 0;
  recently_used_.splice(recently_used_.begin(), recently_used_, cached.use);
  ResponseEntry entry{cached.requests, {id, cached.stamp}};
  if (cached.grouped) return become_ready(std::move(entry), {});
  ready_.push_back({std::move(entry), cached.fusion, {}});
}

void Negotiator::become_ready(ResponseEntry entry, std::string error) {
  const Request& first = entry.first();
  if (first.group.empty()) return emit(std::move(entry), std::move(error));
  // Members may name different groups for the same name. In this case all of these groups fail.
  const std::string key = std::to_string(first.set) + ':' + first.group;
  const auto size = static_cast<size_t>(first.group_size);
  Group& group = groups_[key];
  if (!error.empty() && group.error.empty()) group.error = std::move(error);
  group.entries.push_back(std::move(entry));
  if (++group.ready < size) return;
  Group complete = std::move(group);
  groups_.erase(key);
  for (ResponseEntry& member : complete.entries) emit(std::move(member), complete.error);
}

void Negotiator::emit(ResponseEntry entry, std::string error) {
  const Request& first = entry.first();
  if (error.empty()) change_sets(first, error);
  const Fusion fusion(first);
  ready_.push_back({std::move(entry), fusion, std::move(error)});
}

std::optional<int> Negotiator::find_set(const std::vector<int>& ranks) const {
  for (const auto& [number, members] : sets_)
    if (members == ranks) return number;
  return std::nullopt;
}

int Negotiator::add_set(const std::vector<int>& ranks) {
  sets_[next_set_] = ranks;
  return next_set_++;
}

void Negotiator::change_sets(const Request& request, std::string& error) {
  if (request.kind == CollectiveKind::kAddSet) {
    const std::vector<int> ranks(request.splits.begin(), request.splits.end());
    if (const auto known = find_set(ranks))
      error = str("add_process_set: ranks ", jobs::shape_text(request.splits), " are process set ",
                  *known, " already");
    else
      add_set(ranks);
  } else if (request.kind == CollectiveKind::kRemoveSet) {
    const int set = request.splits.size() == 1 ? static_cast<int>(request.splits[0]) : 0;
    if (set == 0 || !has_set(set))
      error = str("remove_process_set: there is no process set ", set, " to remove");
    else
      remove_set(set);
  }
}

// Operations of the removed set can never complete, so ranks that have announced such operations
// get an error.
void Negotiator::remove_set(int set) {
  for (const AwaitedName& one : waiting())
    if (one.request->set == set)
      refuse(*one.request, str("process set ", set, " was removed before ",
                               jobs::ranks_text(one.missing), " called it"));
  std::erase_if(pending_, [&](const auto& pending) { return pending.second.any().set == set; });
  for (const auto& [name, group] : groups_)
    for (const ResponseEntry& entry : group.entries)
      if (entry.first().set == set)
        refuse(entry.first(), str("process set ", set, " was removed before the rest of its group ",
                                  "was called"));
  std::erase_if(groups_,
                [&](const auto& group) { return group.second.entries.front().first().set == set; });
  for (uint32_t id = 0; id < cache_.size(); ++id)
    if (cache_[id] && cache_[id]->requests->front().set == set) {
      dropped_[id] = cache_[id]->requests;
      forget(id);
    }
  sets_.erase(set);
}

void Negotiator::remember(const std::shared_ptr<const std::vector<Request>>& requests) {
  const Request& first = requests->front();
  const bool repeats = first.kind != CollectiveKind::kAddSet &&
                       first.kind != CollectiveKind::kRemoveSet &&
                       first.kind != CollectiveKind::kBarrier;
  if (!repeats || settings_.cache_capacity <= 0 || !has_set(first.set)) return;
  const std::string& key = first.key();
  if (cache_by_name_.count(key)) return;
  if (cache_by_name_.size() >= static_cast<size_t>(settings_.cache_capacity)) {
    // Evicts a name that no rank has announced. All ranks select the same name for eviction.
    const auto idle = std::find_if(recently_used_.rbegin(), recently_used_.rend(),
                                   [&](uint32_t id) { return cache_[id]->announced == 0; });
    if (idle == recently_used_.rend()) return;
    forget(*idle);
  }
  uint32_t id = static_cast<uint32_t>(cache_.size());
  if (free_ids_.empty()) {
    cache_.emplace_back();
  } else {
    id = free_ids_.back();
    free_ids_.pop_back();
  }
  marks_.resize(cache_.size() * static_cast<size_t>(size_));
  const std::span<uint8_t> of_ranks = marks(id);
  std::fill(of_ranks.begin(), of_ranks.end(), kStranger);
  for (const int rank : members(first.set)) of_ranks[static_cast<size_t>(rank)] = kSilent;
  recently_used_.push_front(id);
  cache_[id] = Cached{.key = key,
                      .requests = requests,
                      .mine = nullptr,
                      .fusion = Fusion(first),
                      .stamp = ++stamps_,
                      .grouped = !first.group.empty(),
                      .announced = 0,
                      .members = requests->size(),
                      .since = now_,
                      .use = recently_used_.begin()};
  cache_by_name_[key] = id;
}

void Negotiator::forget(uint32_t id) {
  Cached& cached = *cache_[id];
  recently_used_.erase(cached.use);
  cache_by_name_.erase(cached.key);
  cache_[id].reset();
  free_ids_.push_back(id);
  forgotten_.push_back(id);
}

// Fuses all-reduces of the same kind into one response at the position of the first all-reduce. All
// ranks reorder the responses in the same way.
std::vector<Response> Negotiator::fused() {
  struct Open {
    size_t place;
    int64_t bytes;
    const Fusion* fusion;
  };
  std::vector<Open> open;
  std::vector<Response> responses;
  for (size_t i = 0; i < ready_.size(); ++i) {
    Ready& ready = ready_[i];
    const Fusion& fusion = ready.fusion;
    const bool fusible = fusion.reduces && ready.error.empty() &&
                         fusion.bytes < settings_.fuse_below &&
                         fusion.bytes < settings_.fusion_bytes;
    auto fits = open.end();
    if (fusible)
      fits = std::find_if(open.begin(), open.end(), [&](const Open& o) {
        return o.fusion->joins(fusion) && o.bytes + fusion.bytes <= settings_.fusion_bytes;
      });
    if (fits != open.end()) {
      fits->bytes += fusion.bytes;
      std::vector<ResponseEntry>& entries = responses[fits->place].entries;
      if (entries.size() == 1) entries.reserve(1 + ready_.size() - i);
      entries.push_back(std::move(ready.entry));
      continue;
    }
    if (fusible) open.push_back({responses.size(), fusion.bytes, &fusion});
    const Request& first = ready.entry.first();
    Response& response = responses.emplace_back();
    response.kind = first.kind;
    response.set = first.set;
    response.error = std::move(ready.error);
    response.entries.push_back(std::move(ready.entry));
  }
  ready_.clear();
  return responses;
}

Negotiator::Fusion::Fusion(const Request& r)
    : reduces(r.kind == CollectiveKind::kAllReduce),
      dtype(r.dtype),
      op(r.op),
      set(r.set),
      device(r.device),
      prescale(r.prescale),
      postscale(r.postscale),
      bytes(static_cast<int64_t>(r.bytes())) {}

const Request& Negotiator::AnnouncedName::any() const {
  return **std::find_if(requests.begin(), requests.end(), [](const auto& r) { return !!r; });
}

std::vector<Negotiator::AwaitedName> Negotiator::waiting() const {
  std::vector<AwaitedName> found;
  const auto add = [&](const Request& request, Clock::time_point since, auto&& has_announced) {
    AwaitedName& one = found.emplace_back(AwaitedName{&request, since, {}});
    const std::vector<int>& ranks = members(request.set);
    for (size_t i = 0; i < ranks.size(); ++i)
      if (!has_announced(i)) one.missing.push_back(ranks[i]);
  };
  for (const auto& [key, pending] : pending_)
    add(pending.any(), pending.since, [&](size_t i) { return pending.requests[i].has_value(); });
  for (uint32_t id = 0; id < cache_.size(); ++id) {
    const auto& cached = cache_[id];
    if (!cached || cached->announced == 0) continue;
    const std::vector<int>& ranks = members(cached->fusion.set);
    add(cached->requests->front(), cached->since, [&](size_t i) {
      return marks_[id * static_cast<size_t>(size_) + static_cast<size_t>(ranks[i])] == kAnnounced;
    });
  }
  std::sort(found.begin(), found.end(), [](const AwaitedName& a, const AwaitedName& b) {
    return std::tie(a.request->name, a.request->set) < std::tie(b.request->name, b.request->set);
  });
  return found;
}

std::vector<Stall> Negotiator::stalls(double longer_than) const {
  std::vector<Stall> found;
  for (AwaitedName& one : waiting()) {
    const double seconds = std::chrono::duration<double>(Clock::now() - one.since).count();
    if (seconds >= longer_than)
      found.push_back({one.request->name, seconds, std::move(one.missing)});
  }
  return found;
}

}  // namespace mxlite::horovod
