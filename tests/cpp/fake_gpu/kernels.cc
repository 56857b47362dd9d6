// No kernels of its own but the interpreter of chains.
#include "tests/cpp/fake_gpu/kernels.h"

#include "tests/cpp/chain_on_host.h"

namespace mxlite {

void register_own_kernels(OpRegistry&) {}

bool borrows_kernels(const std::string&) { return true; }

Plan plan_own_chain(PointwiseChain chain) {
  const auto program = pointwise::compile_chain(chain);
  Plan plan;
  if (!program) return plan;
  for (size_t v = 0; v < chain.num_inputs; ++v)
    plan.inputs.push_back({nullptr, chain.values[v].bytes()});
  for (int v : chain.outputs)
    plan.outputs.push_back({nullptr, chain.values[static_cast<size_t>(v)].bytes()});
  plan.run = [program = *program](KernelContext&, std::span<void* const> in,
                                  std::span<void* const> out,
                                  void*) { test::run_chain_on_host(program, in, out); };
  return plan;
}

}  // namespace mxlite
