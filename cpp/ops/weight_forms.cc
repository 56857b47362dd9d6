#include "cpp/ops/weight_forms.h"

#include <utility>

namespace mxlite {
namespace {

thread_local bool compact = false;

}  // namespace

CompactWeights::CompactWeights(bool on) : before_(std::exchange(compact, compact || on)) {}
CompactWeights::~CompactWeights() { compact = before_; }

bool CompactWeights::wanted() { return compact; }

}  // namespace mxlite
