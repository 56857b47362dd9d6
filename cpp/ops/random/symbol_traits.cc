// Types of random operators in symbols: what the parameter dtype says.
#include "cpp/ops/symbol_traits.h"

namespace mxlite {

void add_random_traits(SymbolTraitsTable& table) {
  for (const char* name :
       {"random_uniform", "random_normal", "random_exponential", "random_gamma", "random_poisson",
        "random_negative_binomial", "random_generalized_negative_binomial", "random_randint",
        "sample_uniform", "sample_normal", "sample_exponential", "sample_gamma", "sample_poisson",
        "sample_negative_binomial", "sample_generalized_negative_binomial", "sample_multinomial"})
    table[name].typed_by_parameter = true;
  table["sample_multinomial"].free_types = {0};
  table["shuffle"].refine = refine_like_first;
}

}  // namespace mxlite
