// The process sets of a job, and the communicators of the sets that contain this rank. The numbers
// of the sets begin with 0, the set of all ranks.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::jobs {

struct ProcessSet {
  std::vector<int> ranks;               // rank numbers of the job
  std::unique_ptr<Communicator> group;  // null if this rank is not a member

  int place_of(int rank) const;  // returns the index in `ranks`, which must contain the rank
};

class ProcessSets {
 public:
  explicit ProcessSets(std::unique_ptr<Communicator> all);  // takes the communicator of set 0

  // Returns the ranks of a process set. Throws a value error if the set does not exist. Any thread
  // may call this function.
  std::vector<int> members(int set) const;

  // The functions below are for the comm thread only.
  const std::map<int, ProcessSet>& by_number() const { return sets_; }
  const ProcessSet* find(int set) const;             // returns null if the set does not exist
  const ProcessSet* find_with_group(int set) const;  // also returns null if this rank is not a
                                                     // member
  Communicator& group(int set) const { return *sets_.at(set).group; }
  // Collective over all ranks of the job.
  void add(int number, const std::vector<int>& ranks);
  void remove(int number);

 private:
  mutable std::mutex mutex_;  // held while the comm thread changes sets_ and while others read it
  std::map<int, ProcessSet> sets_;
};

bool have_common_rank(const std::vector<int>& a, const std::vector<int>& b);
std::string ranks_text(const std::vector<int>& ranks);  // returns "rank 1" or "ranks 0, 2"

}  // namespace mxlite::jobs
