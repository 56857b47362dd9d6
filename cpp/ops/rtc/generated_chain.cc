#include "cpp/ops/rtc/generated_chain.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/accelerator.h"
#include "cpp/ops/pointwise/chain_source.h"
#include "cpp/ops/rtc/device_program.h"

namespace mxlite::rtc {
namespace {

using pointwise::ChainArguments;
using pointwise::ChainCode;

constexpr const char* kKernel = "mxlite_chain";
constexpr int64_t kBlocksPerMultiprocessor = 16;  // same limit as for launches of other kernels

std::atomic<bool> compilation_failed{false};

std::string reason_against() {
  if (env_int("MXLITE_NVRTC", env_int("MXNET_USE_FUSION", 1)) == 0)
    return "MXLITE_NVRTC=0 or MXNET_USE_FUSION=0";
  std::string why_not;
  return Nvrtc::get(&why_not) ? "" : "NVRTC cannot be loaded: " + why_not;
}

std::string text_of(const PointwiseChain& chain) {
  return str("chain ", chain.steps.front().op->name, "..", chain.steps.back().op->name, " (",
             chain.steps.size(), " steps)");
}

void say(const PointwiseChain& chain, const char* what, const std::string& why) {
  if (is_verbose())
    std::fprintf(stderr, "mxlite: rtc: %s %s%s\n", text_of(chain).c_str(), what, why.c_str());
}

}  // namespace

bool generates_chains(Device) {
  static const std::string* const against = [] {
    auto* const reason = new std::string(reason_against());
    if (!reason->empty() && is_verbose())
      std::fprintf(stderr, "mxlite: rtc: pointwise chains are interpreted: %s\n", reason->c_str());
    return reason;
  }();
  return against->empty() && code_loader() && !compilation_failed;
}

Plan plan_generated_chain(const PointwiseChain& chain) {
  Plan plan;
  if (!generates_chains(chain.device)) return plan;
  std::string why_not;
  auto code = pointwise::generate_chain(chain, kKernel, &why_not);
  if (!code) {
    say(chain, "is not generated: ", why_not);
    return plan;
  }
  CodeLoader::Function function = nullptr;
  int64_t most_blocks = 0;
  try {
    DeviceProgram& program = DeviceProgram::get(
        {pointwise::chain_prelude() + code->source, pointwise::chain_options(), {}});
    function = program.find(chain.device.index, kKernel).function;
    most_blocks =
        accelerator()->info(chain.device.index).multiprocessors * kBlocksPerMultiprocessor;
  } catch (const Error& error) {
    compilation_failed = true;
    say(chain, "and all later chains are interpreted: ", error.what());
    return plan;
  }
  say(chain, "is a generated kernel", "");
  for (size_t v = 0; v < chain.num_inputs; ++v)
    plan.inputs.push_back({nullptr, chain.values[v].bytes()});
  for (int v : chain.outputs)
    plan.outputs.push_back({nullptr, chain.values[static_cast<size_t>(v)].bytes()});
  const LaunchGrid grid{{code->blocks(most_blocks), 1, 1}, {ChainCode::kThreads, 1, 1}, 0};
  plan.run = [code = std::make_shared<const ChainCode>(*std::move(code)), function, grid](
                 KernelContext& ctx, std::span<void* const> in, std::span<void* const> out, void*) {
    const ChainArguments arguments(*code, in, out);
    code_loader()->launch(ctx.stream, function, grid, arguments.get());
  };
  return plan;
}

}  // namespace mxlite::rtc
