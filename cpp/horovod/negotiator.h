// Decides which operations all ranks run and in which order, although ranks submit in different
// orders. In each round, every rank sends a frame with its new requests and receives the frames of
// all ranks. All ranks compute the same list of responses from these frames. A name that was
// negotiated before is sent as a number. Uses neither threads nor communication.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp/jobs/negotiation.h"
#include "cpp/jobs/options.h"
#include "cpp/kvstore/comm/deadline.h"

namespace mxlite::horovod {

using jobs::CollectiveKind;
using jobs::Operation;
using jobs::OperationRef;
using jobs::Request;
using jobs::RequestRef;
using jobs::SharedRequest;

// Position of a name in the cache. Indices are reused, so a stamp identifies the name.
struct CacheNumber {
  uint32_t index = jobs::kNoNumber;
  uint32_t stamp = 0;
};

// Response for one name. The requests are those of the set's members, in the order of the members.
struct ResponseEntry {
  std::shared_ptr<const std::vector<Request>> requests;
  CacheNumber number;  // set if the announcement was a number
  const Request& first() const { return requests->front(); }
};

struct Response {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int set = 0;
  std::vector<ResponseEntry> entries;  // several entries run as one operation
  std::string error;                   // if not empty, nothing runs and all ranks get this error
};

class Negotiator {
 public:
  Negotiator(int rank, int size, const jobs::JobSettings& settings);

  // Sorts requests by priority (highest first), then by order of submission.
  std::vector<std::byte> make_frame(std::vector<const SharedRequest*> news);
  struct Outcome {
    std::vector<Response> responses;
    std::vector<uint32_t> forgotten;  // cache positions whose names were dropped
  };
  // Callback for each rank's announcement of a name (rank, request), for the timeline.
  using Announced = std::function<void(int, const Request&)>;
  Outcome process(const std::vector<std::vector<std::byte>>& frames,
                  const Announced* announced = nullptr);

  // Returns the cache number of the request's name, or no number if the name is not in the cache.
  CacheNumber number_of(const SharedRequest& request) const;

  // Adds a process set and returns its number. Must be called on all ranks before the first round.
  int add_set(const std::vector<int>& ranks);
  std::optional<int> find_set(const std::vector<int>& ranks) const;

  std::vector<jobs::Stall> stalls(double longer_than) const;
  size_t cached_names() const { return cache_by_name_.size(); }
  uint64_t cache_hits() const { return cache_hits_; }

 private:
  // A name that some ranks have announced. The same name in another process set is a different
  // object.
  struct AnnouncedName {
    std::vector<std::optional<Request>> requests;  // one for each member of the set
    size_t announced = 0;
    Clock::time_point since = Clock::now();

    const Request& any() const;
  };
  // Names that some ranks have announced and other ranks have not.
  struct AwaitedName {
    const Request* request;
    Clock::time_point since;
    std::vector<int> missing;
  };
  // Size of an all-reduce, and the properties that must match those of other all-reduces to fuse
  // them.
  struct Fusion {
    bool reduces = false;
    DType dtype = DType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    int32_t set = 0, device = -1;
    double prescale = 1, postscale = 1;
    int64_t bytes = 0;

    explicit Fusion(const Request& request);
    bool joins(const Fusion& o) const {
      return set == o.set && dtype == o.dtype && op == o.op && device == o.device &&
             prescale == o.prescale && postscale == o.postscale;
    }
  };
  struct Cached {
    std::string key;
    std::shared_ptr<const std::vector<Request>> requests;
    RequestRef mine;  // this rank's request, or null if it has not made one yet
    Fusion fusion;
    uint32_t stamp = 0;
    bool grouped = false;
    size_t announced = 0;  // number of ranks that have announced the name; see marks_
    size_t members = 0;
    Clock::time_point since;
    std::list<uint32_t>::iterator use;  // position in recently_used_
  };
  struct Group {
    size_t ready = 0;
    std::vector<ResponseEntry> entries;
    std::string error;
  };
  struct Ready {
    ResponseEntry entry;
    Fusion fusion;
    std::string error;
  };
  enum Mark : uint8_t { kSilent, kAnnounced, kStranger };  // kStranger: not a member of the set

  const std::vector<int>& members(int set) const { return sets_.at(set); }
  bool has_set(int set) const { return sets_.count(set) > 0; }
  size_t place_in_set(int rank, int set) const;
  void announce(int rank, Request request);
  void announce_cached(int rank, uint32_t id);
  void become_ready(ResponseEntry entry, std::string error);
  bool refuse_stranger(int rank, const Request& request);
  void refuse(const Request& request, const std::string& why);
  void emit(ResponseEntry entry, std::string error);
  void remember(const std::shared_ptr<const std::vector<Request>>& requests);
  void forget(uint32_t id);
  void change_sets(const Request& request, std::string& error);
  void remove_set(int set);
  std::vector<AwaitedName> waiting() const;
  std::vector<Response> fused();
  uint32_t index_of(const SharedRequest& request) const;  // returns the index in cache_, or
                                                          // kNoNumber
  bool goes_by_number(const SharedRequest& request);
  std::span<uint8_t> marks(uint32_t id) {
    return std::span(marks_).subspan(id * static_cast<size_t>(size_), static_cast<size_t>(size_));
  }

  const int rank_, size_;
  const jobs::JobSettings settings_;
  std::map<int, std::vector<int>> sets_;  // the key is the set number; 0 has all ranks
  int next_set_ = 1;
  std::unordered_map<std::string, AnnouncedName> pending_;
  std::unordered_map<std::string, Group> groups_;
  std::vector<std::optional<Cached>> cache_;
  std::vector<uint8_t> marks_;  // for each cache number, a mark for each rank of the job
  std::vector<uint32_t> free_ids_, forgotten_;
  uint32_t stamps_ = 0;  // number of stamps used
  // Names dropped in this round. Frames from before the drop may still contain the numbers of these
  // names.
  std::unordered_map<uint32_t, std::shared_ptr<const std::vector<Request>>> dropped_;
  std::unordered_map<std::string, uint32_t> cache_by_name_;
  std::list<uint32_t> recently_used_;  // most recent first
  uint64_t cache_hits_ = 0;
  // State of the current round.
  Clock::time_point now_;
  const Announced* announced_ = nullptr;
  std::vector<Ready> ready_;
  std::vector<std::shared_ptr<const std::vector<Request>>> to_remember_;
  // A member only to reuse its memory.
  std::vector<uint32_t> numbers_;
  std::vector<const SharedRequest*> full_;
};

}  // namespace mxlite::horovod
