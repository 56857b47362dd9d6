// The simulated GPU without an emulator: its only own kernels are generated and interpreted chains.
#include "tests/cpp/fake_gpu/kernels.h"

#include <cstdlib>

#include "cpp/ops/rtc/generated_chain.h"
#include "tests/cpp/chain_on_host.h"

namespace mxlite {

void register_own_kernels(OpRegistry&) {}

bool borrows_kernels(const std::string&) { return true; }

LayoutBackend own_layouts() { return {}; }

Plan plan_own_chain(PointwiseChain chain) {
  Plan plan = rtc::plan_generated_chain(chain);
  if (plan.run) return plan;
  const auto program = pointwise::compile_chain(chain);
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

void* allocate_own(size_t bytes) { return std::malloc(bytes + 64); }
void free_own(void* data) noexcept { std::free(data); }
void run_own(const char*, const std::function<void()>& work) { work(); }
Stream* own_stream() { return nullptr; }

}  // namespace mxlite
