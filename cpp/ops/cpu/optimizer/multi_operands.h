// The arrays and parameters of each weight in an update of many weights.
#pragma once
#include "cpp/ops/cpu/optimizer/update.h"
#include "cpp/ops/optimizer/multi.h"

namespace mxlite::optimizer {

// `in` contains weight, grad, states and weight32 (if mixed) for each weight, then ExtraArrays.
template <size_t kStates, bool mixed>
Operands operands_of(Inputs in, Outputs out, size_t w) {
  constexpr size_t kGroup = 2 + kStates + (mixed ? 1 : 0);
  const Inputs arrays = in.subspan(w * kGroup, kGroup);
  return {arrays[0], arrays[1], arrays.subspan(2, kStates), mixed ? &arrays[kGroup - 1] : nullptr,
          out[w]};
}

// Returns the parameters of one weight, including numbers that the call reads from arrays.
template <class P>
P params_of(const Multi<P>& p, const ExtraArrays<P>& extra, size_t w) {
  P one = p.each[w];
  if (extra.loads) LoadedFields<P>::set(one, [&](int k) { return number_at(extra.loaded[k], w); });
  return one;
}

}  // namespace mxlite::optimizer
