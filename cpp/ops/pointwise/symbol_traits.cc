// Shapes of element-wise operators in symbols.
#include "cpp/ops/symbol_traits.h"

namespace mxlite {

void add_pointwise_traits(SymbolTraitsTable& table) {
  for (const char* name : {"elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "add_n",
                           "smooth_l1", "BlockGrad", "make_loss", "_copy", "clip"})
    table[name].refine = refine_all_alike;
  // 1.x's element-wise operators, whose engine broadcasts: their arrays have one shape.
  for (const char* name : {"_equal", "_not_equal", "_greater", "_greater_equal", "_lesser",
                           "_lesser_equal", "_logical_and", "_logical_or", "_logical_xor",
                           "_maximum", "_minimum", "_mod", "_power", "_hypot", "_grad_add"}) {
    table[name].refine = refine_all_alike;
    table[name].keeps_alias = true;
  }
  // Operators that leave out what a sparse array does not store.
  table["_scatter_elemwise_div"].refine = refine_all_alike;
  for (const char* name :
       {"_scatter_elemwise_div", "_scatter_minus_scalar", "_scatter_plus_scalar"})
    table[name].keeps_alias = true;
  table["add_n"].count_attribute = "num_args";
}

}  // namespace mxlite
