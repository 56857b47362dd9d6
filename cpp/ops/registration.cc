#include "cpp/ops/registration.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace mxlite {
namespace {

// constinit initializes the variables before static constructors of other files use them.
constinit std::mutex mutex;
constinit const Registration* pending = nullptr;  // guarded by mutex

const Registration* exchange_pending(const Registration* first) {
  const std::lock_guard lock(mutex);
  return std::exchange(pending, first);
}

}  // namespace

Registration::Registration(Stage stage, Function add, const char* file)
    : stage_(stage), add_(add), file_(file), next_(exchange_pending(this)) {}

void Registration::run_all(OpRegistry& ops) {
  std::vector<const Registration*> waiting;
  for (const Registration* r = exchange_pending(nullptr); r; r = r->next_) waiting.push_back(r);
  std::sort(waiting.begin(), waiting.end(), [](const Registration* a, const Registration* b) {
    if (a->stage_ != b->stage_) return a->stage_ < b->stage_;
    return std::strcmp(a->file_, b->file_) < 0;
  });
  for (const Registration* r : waiting) r->add_(ops);
}

}  // namespace mxlite
