#include "cpp/core/waits.h"

namespace mxlite {
namespace {
thread_local bool may_wait = true;
}  // namespace

bool may_wait_for_work() { return may_wait; }

NoWaits::NoWaits() : before_(may_wait) { may_wait = false; }
NoWaits::~NoWaits() { may_wait = before_; }

}  // namespace mxlite
