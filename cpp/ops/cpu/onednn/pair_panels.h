// Describes oneDNN's blocked weights of bfloat16 products as panels of pack_pairs.h.
#pragma once
#include <optional>

#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/cpu/pack_pairs.h"

namespace mxlite::onednn {

struct PairLayout {
  cpu::PairPanels panels;
  bool transposed;  // whether the dimensions of the descriptor are (columns, rows)
};
// Returns nullopt unless the two-dimensional matrix lies in blocks of pairs of rows.
std::optional<PairLayout> pair_panels(const Desc& desc);

}  // namespace mxlite::onednn
