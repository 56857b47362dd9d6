#include "cpp/kvstore/negotiator.h"

#include <algorithm>
#include <numeric>

#include "cpp/base/error.h"
#include "cpp/kvstore/validate.h"

namespace mxlite {

Negotiator::Negotiator(int rank, int size, size_t cache_capacity)
    : rank_(rank), size_(size), cache_capacity_(cache_capacity) {
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

std::vector<std::byte> Negotiator::make_frame(std::vector<const Request*> news, uint8_t flags) {
  const auto before = [](const Request* a, const Request* b) { return a->priority > b->priority; };
  if (!std::is_sorted(news.begin(), news.end(), before))
    std::stable_sort(news.begin(), news.end(), before);
  std::vector<uint32_t> ids;
  std::vector<const Request*> full;
  ids.reserve(news.size());
  for (const Request* asked : news) {
    const Request& request = *asked;
    const auto found = settings_.cache ? cache_by_name_.find(request.key()) : cache_by_name_.end();
    if (found != cache_by_name_.end()) {
      const Cached& cached = *cache_[found->second];
      const std::vector<int>& ranks = members(request.set);
      const auto place = std::find(ranks.begin(), ranks.end(), rank_);
      if (place != ranks.end() &&
          (*cached.requests)[static_cast<size_t>(place - ranks.begin())].same_terms(request)) {
        ids.push_back(found->second);
        continue;
      }
    }
    full.push_back(asked);
  }
  FrameWriter frame;
  frame.number(flags);
  if (rank_ == 0) {
    frame.number(proposed_.fusion_bytes);
    frame.number(proposed_.fuse_below);
    frame.number(proposed_.cycle_ms);
    frame.number(static_cast<uint8_t>(proposed_.cache));
  }
  frame.number(static_cast<uint32_t>(ids.size()));
  frame.bytes(std::as_bytes(std::span(ids)));
  frame.number(static_cast<uint32_t>(full.size()));
  for (const Request* request : full) frame.request(*request);
  return frame.take();
}

Negotiator::Outcome Negotiator::process(const std::vector<std::vector<std::byte>>& frames) {
  Outcome outcome;
  ready_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    FrameReader frame(frames[static_cast<size_t>(rank)]);
    const auto flags = frame.number<uint8_t>();
    if (rank == 0) {
      settings_.fusion_bytes = frame.number<int64_t>();
      settings_.fuse_below = frame.number<int64_t>();
      settings_.cycle_ms = frame.number<double>();
      settings_.cache = frame.number<uint8_t>() != 0;
      outcome.stalled = flags & kStalled;
    }
    if (flags & kShutdown) outcome.shutdown.push_back(rank);
    for (uint32_t n = frame.count(sizeof(uint32_t)); n > 0; --n)
      announce_cached(rank, frame.number<uint32_t>());
    for (uint32_t n = frame.count(1); n > 0; --n) announce(rank, frame.request());
    MX_CHECK_KIND(frame.at_end(), ErrorKind::kCommunicator,
                  "a frame of the negotiation is longer than what it holds");
  }
  for (const auto& requests : to_remember_) remember(requests);
  to_remember_.clear();
  dropped_.clear();
  fuse();
  outcome.responses = std::move(ready_);
  return outcome;
}

// A set that was removed meanwhile, or of which the rank is no member.
bool Negotiator::refuse_stranger(int rank, const Request& request) {
  const auto set = sets_.find(request.set);
  const bool member = set != sets_.end() &&
                      std::find(set->second.begin(), set->second.end(), rank) != set->second.end();
  if (member) return false;
  Response response;
  response.kind = request.kind;
  response.set = request.set;
  response.error = str(collective_name(request.kind), " of '", request.name, "': rank ", rank,
                       " is not in process set ", request.set);
  response.entries.push_back(
      {std::make_shared<const std::vector<Request>>(std::vector<Request>{request})});
  ready_.push_back(std::move(response));
  return true;
}

void Negotiator::announce(int rank, Request request) {
  if (refuse_stranger(rank, request)) return;
  if (on_announce) on_announce(rank, request);
  const std::string key = request.key();
  // Other terms than those that were negotiated: who sent the number is asked for its terms again.
  if (const auto found = cache_by_name_.find(key); found != cache_by_name_.end()) {
    const uint32_t id = found->second;
    const Cached old = *cache_[id];
    dropped_[id] = old.requests;
    forget(id);
    for (size_t i = 0; i < old.announced.size(); ++i) {
      if (!old.announced[i]) continue;
      Pending& pending = pending_[key];
      pending.requests.resize(old.announced.size());
      pending.since = old.since;
      pending.requests[i] = (*old.requests)[i];
      ++pending.announced;
    }
  }
  const size_t place = place_in_set(rank, request.set);
  const int set = request.set;
  Pending& pending = pending_[key];
  pending.requests.resize(members(set).size());
  if (!pending.requests[place]) ++pending.announced;
  pending.requests[place] = std::move(request);
  if (pending.announced < pending.requests.size()) return;
  auto all = std::make_shared<std::vector<Request>>();
  for (auto& one : pending.requests) all->push_back(std::move(*one));
  pending_.erase(key);
  std::string error = mismatch(*all, members(set));
  if (error.empty()) to_remember_.push_back(all);
  become_ready(std::move(all), std::move(error));
}

void Negotiator::announce_cached(int rank, uint32_t id) {
  if (const auto old = dropped_.find(id); old != dropped_.end())
    return announce(rank, (*old->second)[place_in_set(rank, old->second->front().set)]);
  MX_CHECK_KIND(id < cache_.size() && cache_[id], ErrorKind::kCommunicator,
                "a frame of the negotiation names number ", id, ", which nobody knows");
  Cached& cached = *cache_[id];
  const Request& terms = (*cached.requests)[0];
  const size_t place = place_in_set(rank, terms.set);
  if (on_announce) on_announce(rank, (*cached.requests)[place]);
  ++cache_hits_;
  if (cached.count == 0) cached.since = Clock::now();
  if (!cached.announced[place]) ++cached.count;
  cached.announced[place] = true;
  if (cached.count < cached.announced.size()) return;
  cached.announced.assign(cached.announced.size(), false);
  cached.count = 0;
  recently_used_.splice(recently_used_.begin(), recently_used_, cached.use);
  become_ready(cached.requests, {});
}

void Negotiator::become_ready(std::shared_ptr<const std::vector<Request>> requests,
                              std::string error) {
  const Request& first = requests->front();
  ResponseEntry entry{std::move(requests)};
  if (first.group.empty()) return emit(std::move(entry), std::move(error));
  // A member whose terms differ by rank may name several groups: all of them fail.
  const std::string key = str(first.set, ":", first.group);
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
  Response response;
  response.kind = first.kind;
  response.set = first.set;
  response.error = std::move(error);
  response.entries.push_back(std::move(entry));
  ready_.push_back(std::move(response));
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
      error = str("add_process_set: ranks ", shape_text(request.splits), " are process set ",
                  *known, " already");
    else
      add_set(ranks);
  } else if (request.kind == CollectiveKind::kRemoveSet) {
    const int set = request.splits.size() == 1 ? static_cast<int>(request.splits[0]) : 0;
    if (set == 0 || sets_.erase(set) == 0)
      error = str("remove_process_set: there is no process set ", set, " to remove");
    for (uint32_t id = 0; id < cache_.size(); ++id)
      if (cache_[id] && cache_[id]->requests->front().set == set) forget(id);
  }
}

void Negotiator::remember(const std::shared_ptr<const std::vector<Request>>& requests) {
  const Request& first = requests->front();
  const bool repeats = first.kind != CollectiveKind::kAddSet &&
                       first.kind != CollectiveKind::kRemoveSet &&
                       first.kind != CollectiveKind::kBarrier;
  if (!repeats || cache_capacity_ == 0 || !settings_.cache || !has_set(first.set)) return;
  const std::string& key = first.key();
  if (cache_by_name_.count(key)) return;
  if (cache_by_name_.size() >= cache_capacity_) {
    // Not one that some rank waits for; the same one on all ranks.
    const auto idle = std::find_if(recently_used_.rbegin(), recently_used_.rend(),
                                   [&](uint32_t id) { return cache_[id]->count == 0; });
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
  recently_used_.push_front(id);
  cache_[id] = Cached{key, requests,     std::vector<bool>(requests->size()),
                      0,   Clock::now(), recently_used_.begin()};
  cache_by_name_[key] = id;
}

void Negotiator::forget(uint32_t id) {
  Cached& cached = *cache_[id];
  recently_used_.erase(cached.use);
  cache_by_name_.erase(cached.key);
  cache_[id].reset();
  free_ids_.push_back(id);
}

// Puts all-reduces of the same kind into one response, in the place of the first. Responses in
// between are overtaken: the same on all ranks.
void Negotiator::fuse() {
  struct Open {
    size_t place;
    int64_t bytes;
  };
  std::vector<Open> open;
  std::vector<Response> fused;
  fused.reserve(ready_.size());
  for (Response& response : ready_) {
    const Request& r = response.entries.front().first();
    const auto bytes = static_cast<int64_t>(r.bytes());
    const bool fusible = response.error.empty() && r.kind == CollectiveKind::kAllReduce &&
                         bytes < settings_.fuse_below && bytes < settings_.fusion_bytes;
    auto fits = open.end();
    if (fusible)
      fits = std::find_if(open.begin(), open.end(), [&](const Open& o) {
        const Request& other = fused[o.place].entries.front().first();
        return other.set == r.set && other.dtype == r.dtype && other.op == r.op &&
               other.device == r.device && other.prescale == r.prescale &&
               other.postscale == r.postscale && o.bytes + bytes <= settings_.fusion_bytes;
      });
    if (fits != open.end()) {
      fits->bytes += bytes;
      fused[fits->place].entries.push_back(std::move(response.entries.front()));
      continue;
    }
    fused.push_back(std::move(response));
    if (fusible) open.push_back({fused.size() - 1, bytes});
  }
  ready_ = std::move(fused);
}

std::vector<Stall> Negotiator::stalls(double longer_than) const {
  std::vector<Stall> found;
  const auto seconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  const auto add = [&](const Request& request, Clock::time_point since, auto&& has_announced) {
    Stall stall{request.name, request.set, seconds(since), {}};
    if (stall.seconds < longer_than) return;
    const std::vector<int>& ranks = members(request.set);
    for (size_t i = 0; i < ranks.size(); ++i)
      if (!has_announced(i)) stall.missing.push_back(ranks[i]);
    found.push_back(std::move(stall));
  };
  for (const auto& [key, pending] : pending_) {
    const auto any = std::find_if(pending.requests.begin(), pending.requests.end(),
                                  [](const auto& r) { return r.has_value(); });
    add(**any, pending.since, [&](size_t i) { return pending.requests[i].has_value(); });
  }
  for (const auto& cached : cache_)
    if (cached && cached->count > 0)
      add(cached->requests->front(), cached->since, [&](size_t i) { return cached->announced[i]; });
  std::sort(found.begin(), found.end(),
            [](const Stall& a, const Stall& b) { return a.name < b.name; });
  return found;
}

}  // namespace mxlite
