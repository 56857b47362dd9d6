#include "cpp/jobs/process_sets.h"

#include <algorithm>
#include <numeric>

#include "cpp/base/error.h"

namespace mxlite::jobs {

int ProcessSet::place_of(int rank) const {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

ProcessSets::ProcessSets(std::unique_ptr<Communicator> all) {
  ProcessSet& set = sets_[0];
  set.ranks.resize(static_cast<size_t>(all->size()));
  std::iota(set.ranks.begin(), set.ranks.end(), 0);
  set.group = std::move(all);
}

std::vector<int> ProcessSets::members(int set) const {
  const std::lock_guard lock(mutex_);
  const ProcessSet* const found = find(set);
  MX_CHECK(found, "process set ", set, " does not exist");
  return found->ranks;
}

const ProcessSet* ProcessSets::find(int set) const {
  const auto found = sets_.find(set);
  return found == sets_.end() ? nullptr : &found->second;
}

const ProcessSet* ProcessSets::find_with_group(int set) const {
  const ProcessSet* const found = find(set);
  return found && found->group ? found : nullptr;
}

void ProcessSets::add(int number, const std::vector<int>& ranks) {
  ProcessSet set{ranks, nullptr};
  Communicator& all = group(0);
  const int place = set.place_of(all.rank());
  const bool is_member = place < static_cast<int>(ranks.size());
  set.group = all.split(is_member ? 0 : -1, place);
  const std::lock_guard lock(mutex_);
  sets_.insert_or_assign(number, std::move(set));
}

void ProcessSets::remove(int number) {
  const std::lock_guard lock(mutex_);
  sets_.erase(number);
}

bool have_common_rank(const std::vector<int>& a, const std::vector<int>& b) {
  return std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int r : ranks) text += str(text.empty() ? "" : ", ", r);
  return str(ranks.size() == 1 ? "rank " : "ranks ", text);
}

}  // namespace mxlite::jobs
