#include "cpp/ops/higher_order.h"

namespace mxlite {
namespace {

thread_local bool differentiates = false;

}  // namespace

bool differentiates_gradient() { return differentiates; }

HigherOrderScope::HigherOrderScope(bool value) : before_(differentiates) { differentiates = value; }
HigherOrderScope::~HigherOrderScope() { differentiates = before_; }

}  // namespace mxlite
