// Several pointwise operators in one pass over memory. Each thread processes block after block and
// runs every operator's kernel on a block, so that intermediate values stay in the cache.
#include <algorithm>
#include <utility>

#include "cpp/core/threads.h"
#include "cpp/ops/cpu/pointwise/parallel_ranges.h"
#include "cpp/ops/planned_kernel.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

// Elements per block: enough to make kernel calls cheap, and few enough for the L2 cache.
constexpr int64_t kChainBlock = 8192;
static_assert(kChainBlock <= pointwise::kParallelElements, "kernels must not split a block");

// A value's memory: an operand of the plan, or a slot of the thread's scratch.
struct Source {
  enum class Kind : uint8_t { kInput, kOutput, kSlot } kind = Kind::kSlot;
  size_t index = 0;
  size_t step_bytes = 0;  // from one element to the next; 0 for a single value
};

class Chain {
 public:
  explicit Chain(PointwiseChain c) : chain_(std::move(c)) {
    for (const TensorSpec& v : chain_.values) count_ = std::max(count_, v.shape.size());
    if (count_ > pointwise::kParallelElements) threads_ = cpu_threads();
    for (const PointwiseChain::Operation& step : chain_.steps)
      kernels_.push_back(find_kernel(step));
    place_values();
  }

  size_t scratch_bytes() const { return static_cast<size_t>(threads_) * slots_ * kSlotBytes; }

  void run(const KernelContext& context, std::span<void* const> in, std::span<void* const> out,
           void* scratch) const {
    const int64_t blocks = (count_ + kChainBlock - 1) / kChainBlock;
    const auto work = kChainBlock * static_cast<int64_t>(chain_.steps.size());
    const auto run = [&](int64_t first, int64_t last, int thread) {
      auto* const slots = static_cast<std::byte*>(scratch);
      run_blocks(context, in, out, slots + static_cast<size_t>(thread) * slots_ * kSlotBytes, first,
                 last);
    };
    share_range(blocks, 1, work, run, threads_);
  }

 private:
  static constexpr size_t kSlotBytes = kChainBlock * sizeof(double);

  KernelFn find_kernel(const PointwiseChain::Operation& step) const {
    std::vector<TensorSpec> in, out;
    for (int v : step.inputs) in.push_back(chain_.values[static_cast<size_t>(v)]);
    for (int v : step.outputs) out.push_back(chain_.values[static_cast<size_t>(v)]);
    return step.op->select_kernel(DeviceType::kCPU, step.params.get(), in, out).run;
  }

  // Slots are reused after the last step that writes or reads them.
  void place_values() {
    const size_t n = chain_.values.size();
    std::vector<size_t> last_use(n, 0);
    for (size_t s = 0; s < chain_.steps.size(); ++s)
      for (const auto& values : {chain_.steps[s].inputs, chain_.steps[s].outputs})
        for (int v : values) last_use[static_cast<size_t>(v)] = s;
    sources_.resize(n);
    for (size_t v = 0; v < n; ++v) {
      const TensorSpec& spec = chain_.values[v];
      sources_[v].step_bytes = spec.shape.size() == count_ ? dtype_size(spec.dtype) : 0;
      if (v < chain_.num_inputs) sources_[v] = {Source::Kind::kInput, v, sources_[v].step_bytes};
    }
    for (size_t k = 0; k < chain_.outputs.size(); ++k) {
      Source& s = sources_[static_cast<size_t>(chain_.outputs[k])];
      s.kind = Source::Kind::kOutput;
      s.index = k;
    }
    std::vector<size_t> free_slots;
    for (size_t s = 0; s < chain_.steps.size(); ++s) {
      for (int v : chain_.steps[s].outputs) {
        Source& source = sources_[static_cast<size_t>(v)];
        if (source.kind != Source::Kind::kSlot) continue;
        if (free_slots.empty()) free_slots.push_back(slots_++);
        source.index = free_slots.back();
        free_slots.pop_back();
      }
      for (size_t v = chain_.num_inputs; v < n; ++v)
        if (sources_[v].kind == Source::Kind::kSlot && last_use[v] == s)
          free_slots.push_back(sources_[v].index);
    }
  }

  void run_blocks(KernelContext context, std::span<void* const> in, std::span<void* const> out,
                  std::byte* slots, int64_t first, int64_t last) const {
    std::vector<TensorRef> refs;
    for (const TensorSpec& v : chain_.values)
      refs.push_back(
          {nullptr, Shape{std::min(v.shape.size(), kChainBlock)}, Strides{1}, v.dtype, true});
    SmallVector<TensorRef, 4> inputs, outputs;
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kChainBlock, n = std::min(kChainBlock, count_ - begin);
      for (size_t v = 0; v < refs.size(); ++v) {
        const Source& s = sources_[v];
        if (s.step_bytes) refs[v].shape[0] = n;
        const size_t offset = static_cast<size_t>(begin) * s.step_bytes;
        refs[v].data = s.kind == Source::Kind::kInput    ? at(in[s.index], offset)
                       : s.kind == Source::Kind::kOutput ? at(out[s.index], offset)
                                                         : slots + s.index * kSlotBytes;
      }
      for (size_t i = 0; i < kernels_.size(); ++i) {
        inputs.clear();
        outputs.clear();
        for (int v : chain_.steps[i].inputs) inputs.push_back(refs[static_cast<size_t>(v)]);
        for (int v : chain_.steps[i].outputs) outputs.push_back(refs[static_cast<size_t>(v)]);
        kernels_[i](context, chain_.steps[i].params.get(), inputs, outputs);
      }
    }
  }

  static void* at(void* base, size_t offset) { return static_cast<std::byte*>(base) + offset; }

  PointwiseChain chain_;
  int64_t count_ = 0;
  int threads_ = 1;  // most threads that run() may use, because each has slots of its own
  std::vector<KernelFn> kernels_;
  std::vector<Source> sources_;
  size_t slots_ = 0;
};

Plan plan_chain(PointwiseChain c) {
  Plan plan;
  for (size_t v = 0; v < c.num_inputs; ++v) plan.inputs.push_back({nullptr, c.values[v].bytes()});
  for (int v : c.outputs)
    plan.outputs.push_back({nullptr, c.values[static_cast<size_t>(v)].bytes()});
  auto chain = std::make_shared<const Chain>(std::move(c));
  plan.scratch_bytes = chain->scratch_bytes();
  plan.run = [chain](KernelContext& context, std::span<void* const> in, std::span<void* const> out,
                     void* scratch) { chain->run(context, in, out, scratch); };
  return plan;
}

}  // namespace

static const Registration registration(Stage::kPlans, [](OpRegistry&) {
  set_chain_planner(DeviceType::kCPU, {.plan = plan_chain});
});

}  // namespace mxlite
