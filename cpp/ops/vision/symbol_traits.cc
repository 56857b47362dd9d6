// Names of the outputs of vision operators in symbols, and of operators of contrib and linalg.
#include "cpp/ops/symbol_traits.h"

namespace mxlite {
namespace {

auto always(int count) {
  return [count](const void*, int) { return count; };
}

}  // namespace

void add_vision_traits(SymbolTraitsTable& table) {
  for (const char* name : {"BilinearSampler", "Correlation", "ROIPooling", "GridGenerator",
                           "SpatialTransformer", "_contrib_DeformablePSROIPooling"})
    table[name].output_names = {"output"};
  for (const char* name : {"_contrib_MultiProposal", "_contrib_Proposal"}) {
    table[name].output_names = {"output", "score"};
    table[name].constant_output = true;
  }
  table["_contrib_MultiBoxTarget"].output_names = {"loc_target", "loc_mask", "cls_target"};
  table["_contrib_hawkesll"].output_names = {"output", "out_state"};
  for (const char* name : {"Correlation", "Crop", "GridGenerator"})
    table[name].names_single_input = true;
  for (const char* name :
       {"BilinearSampler", "GridGenerator", "_contrib_Proposal", "_contrib_MultiProposal",
        "_contrib_DeformablePSROIPooling", "_contrib_box_nms"})
    table[name].total_outputs = always(2);
  for (const char* name : {"Correlation", "SpatialTransformer", "linalg_det"})
    table[name].total_outputs = always(3);
  table["linalg_slogdet"].total_outputs = always(4);
  table["Crop"].count_attribute = table["khatri_rao"].count_attribute = "num_args";
}

}  // namespace mxlite
