// The process sets of a job, numbered from 0 (all ranks), and the communicators of those sets to
// which this rank belongs.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::jobs {

struct ProcessSet {
  std::vector<int> ranks;               // in the job
  std::unique_ptr<Communicator> group;  // null: this rank is no member

  int place_of(int rank) const;  // index in `ranks`, which must contain the rank
};

class ProcessSets {
 public:
  explicit ProcessSets(std::unique_ptr<Communicator> all);  // the communicator of set 0

  // Any thread may call this; throws a value error if there is no such set.
  std::vector<int> members(int set) const;

  // The functions below are for the comm thread only.
  const std::map<int, ProcessSet>& by_number() const { return sets_; }
  const ProcessSet* find(int set) const;             // null if there is none
  const ProcessSet* find_with_group(int set) const;  // null also if this rank is no member
  Communicator& group(int set) const { return *sets_.at(set).group; }
  // Collective over all ranks of the job.
  void add(int number, const std::vector<int>& ranks);
  void remove(int number);

 private:
  mutable std::mutex mutex_;  // held while the comm thread changes sets_ and while others read it
  std::map<int, ProcessSet> sets_;
};

bool have_common_rank(const std::vector<int>& a, const std::vector<int>& b);
std::string ranks_text(const std::vector<int>& ranks);  // "rank 1", "ranks 0, 2"

}  // namespace mxlite::jobs
