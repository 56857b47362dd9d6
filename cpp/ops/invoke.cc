#include "cpp/ops/invoke.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "cpp/core/cpu/guarded_allocator.h"
#include "cpp/core/host_memory.h"
#include "cpp/engine/task_memory.h"
#include "cpp/ndarray/limits.h"
#include "cpp/ops/call_checks.h"
#include "cpp/ops/collective/run.h"

namespace mxlite {
namespace {

// For at most this many operand bytes, running a task takes less time than passing it to a worker.
constexpr size_t kInlineBytes = 64 << 10;

struct ScratchBlock {
  void* data = nullptr;
  size_t bytes = 0;
  ~ScratchBlock() { std::free(data); }
};

// Returns a new block for every call, ending at a guard page, to find kernels that write beyond it.
void* guarded_scratch(size_t bytes) {
  struct Guarded {
    Block block;
    ~Guarded() {
      if (block.data) guarded_allocator().free(block);
    }
  };
  thread_local Guarded last;
  if (last.block.data) guarded_allocator().free(std::exchange(last.block, {}));
  last.block = guarded_allocator().allocate((bytes + 63) / 64 * 64);
  return last.block.data;
}

// Constructs the view in place, which avoids a second copy of its shapes. The task sets the view's
// address when it runs.
template <size_t N>
void append_view(SmallVector<TensorRef, N>& views, const NDArray& a) {
  views.emplace_back(nullptr, a.shape(), a.strides(), a.dtype(), a.contiguous());
}

// Calls `allocate`; if it throws, adds operator and output spec to the error.
template <class Allocate>
auto allocate_for(const OpSchema& op, const TensorSpec& spec, const Allocate& allocate) {
  try {
    return allocate();
  } catch (Error& error) {
    error.add_context(str("for the output ", spec, " of ", op.name));
    throw;
  }
}

class OpTask final : public engine::Task {
 public:
  OpTask(const OpSchema& op, const Kernel& kernel, ParamsRef params, KernelContext ctx,
         engine::Origin origin)
      : Task(op.name.c_str(), origin),
        op_(op),
        kernel_(kernel),
        params_(std::move(params)),
        ctx_(ctx) {}

  void add_input(const NDArray& a) {
    append_view(in_, a);
    hold(a);
  }
  void add_output(const NDArray& a) {
    append_view(out_, a);
    hold(a);
  }

  bool uses_foreign_memory() const {
    return std::any_of(held_.begin(), held_.end(),
                       [](auto& place) { return place.storage->is_foreign(); });
  }
  size_t new_bytes() const { return new_bytes_; }  // value for PushOptions::bytes

  void run() override {
    ctx_.stream = engine::current_stream();
    const StoragePlace* place = held_.begin();
    for (TensorRef& in : in_) in.data = place++->data();
    for (TensorRef& out : out_)
      out.data = allocate_for(op_, {out.shape, out.dtype}, [&] { return place++->data(); });
    kernel_.run(ctx_, params_.get(), in_, out_);
  }
  void release_operands() noexcept override {
    held_.clear();
    params_.reset();
  }
  void describe(std::string& text) const override {
    text += op_.name + "(";
    for (size_t i = 0; i < in_.size(); ++i)
      text += str(i ? ", " : "", TensorSpec{in_[i].shape, in_[i].dtype});
    text += ")";
  }

 private:
  void hold(const NDArray& a) {
    held_.push_back(a.place());
    new_bytes_ += a.storage()->take_new_bytes();
  }

  const OpSchema& op_;
  const Kernel& kernel_;
  ParamsRef params_;
  KernelContext ctx_;
  SmallVector<TensorRef, 3> in_;
  SmallVector<TensorRef, 2> out_;
  SmallVector<StoragePlace, 5> held_;  // inputs, then outputs
  size_t new_bytes_ = 0;
};
static_assert(sizeof(OpTask) <= engine::kLargestReusedTask);

// Returns whether the device is pinned or shared memory, in which no results are allocated.
bool is_transfer_memory(const Device& device) {
  return device.type == DeviceType::kPinned || device.type == DeviceType::kShared;
}

// Returns whether one kernel can access both devices: all host devices, or the same GPU.
bool same_side(const Device& a, const Device& b) {
  return a == b || (is_host_memory(a) && is_host_memory(b));
}

void check_devices(const OpSchema& op, std::span<const NDArrayRef> inputs) {
  for (size_t i = 1; i < inputs.size(); ++i)
    MX_CHECK_KIND(same_side(inputs[i]->device(), inputs[0]->device()), ErrorKind::kDevice, op.name,
                  ": all inputs must be on one device, got ", op.input_name(0), " on ",
                  inputs[0]->device(), " and ", op.input_name(static_cast<int>(i)), " on ",
                  inputs[i]->device(), "; copy one with as_in_context");
}

// Returns the device on which an operator runs and allocates results; as in MXNet 1.x, never pinned
// or shared memory. Without inputs, the device of out= takes precedence over ctx=.
Device place_of(std::span<const NDArrayRef> inputs, const InvokeOptions& options) {
  const bool from_out = inputs.empty() && !options.out.empty() && options.out[0];
  if (inputs.empty() && !from_out) return options.device;
  const Device first = (from_out ? options.out[0] : inputs[0])->device();
  return is_transfer_memory(first) ? Device{DeviceType::kCPU, 0} : first;
}

using Storages = SmallVector<const Storage*, 4>;

// Returns whether the kernel may write directly into `target`, which the user passed as out=.
// `storages` are the inputs' storages, in one list because each output is compared with all inputs:
// an update of many weights has hundreds.
bool writes_directly(const OpSchema& op, const NDArray& target, const TensorSpec& spec, int output,
                     std::span<const NDArrayRef> inputs, const Storages& storages) {
  if (target.dtype() != spec.dtype || !target.contiguous()) return false;
  const Storage* const own = target.storage().get();
  for (auto found = std::find(storages.begin(), storages.end(), own); found != storages.end();
       found = std::find(found + 1, storages.end(), own)) {
    const auto i = static_cast<size_t>(found - storages.begin());
    // An input that is broadcast or converted would be overwritten before it is read.
    const bool same_place = inputs[i]->offset() == target.offset() && inputs[i]->contiguous() &&
                            inputs[i]->spec() == target.spec();
    const bool allowed = std::any_of(op.inplace.begin(), op.inplace.end(), [&](InplacePair p) {
      return p.input == static_cast<int>(i) && p.output == output;
    });
    if (!same_place || !allowed) return false;
  }
  return true;
}

}  // namespace

void* KernelContext::scratch(size_t bytes) {
  if (stream) return stream->scratch(bytes);
  thread_local ScratchBlock block;
  if (guard_pages_wanted()) return guarded_scratch(bytes);
  if (bytes > block.bytes) {
    std::free(block.data);
    block.bytes = (std::max(bytes, block.bytes * 2) + 63) / 64 * 64;
    block.data = std::aligned_alloc(64, block.bytes);
    if (!block.data) {
      block.bytes = 0;
      throw std::bad_alloc();
    }
  }
  return block.data;
}

namespace {

bool all_known(std::span<const TensorSpec> specs) {
  return std::all_of(specs.begin(), specs.end(),
                     [](const TensorSpec& spec) { return spec.shape.is_known(); });
}

Specs inferred(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs) {
  Specs outputs = op.infer(params, inputs);
  for (const TensorSpec& spec : outputs)
    if (!has_common_size(spec) && (spec.shape.is_known() || all_known(inputs)))
      check_empty_or_huge(spec);
  return outputs;
}

}  // namespace

Specs infer_outputs(const OpSchema& op, const void* params, std::span<const TensorSpec> inputs) {
  check_input_count(op, params, inputs.size());
  try {
    return inferred(op, params, inputs);
  } catch (Error& error) {
    // A shared shape rule may report errors under a sibling operator's name.
    if (std::string_view(error.what()).find(op.name) == std::string_view::npos)
      error.add_context(str("in ", op.name));
    throw;
  }
}

uint64_t count_random(const OpSchema& op, const void* params, std::span<const TensorSpec> outputs,
                      bool training) {
  if (!op.random_count) return 0;
  const bool draws =
      op.is_identity ? !op.is_identity(params, training) : training || !op.training_dependent;
  return draws ? op.random_count(params, outputs) : 0;
}

// Calls `check`. If it throws in a collective operator, sends the error to the other ranks.
template <class Check>
auto announcing_failure(const OpSchema& op, const ParamsRef& params,
                        std::span<const NDArrayRef> inputs, const Check& check) {
  try {
    return check();
  } catch (const Error& error) {
    collective::announce_failure(op, params.get(), inputs, error.what());
    throw;
  }
}

NDArrays invoke(const OpSchema& op, const ParamsRef& params, std::span<const NDArrayRef> inputs,
                const InvokeOptions& options) {
  check_devices(op, inputs);
  const Device device = place_of(inputs, options);
  SmallVector<TensorSpec, 4> in_specs;
  for (const NDArrayRef& a : inputs) in_specs.push_back(a->spec());
  const Specs out_specs = announcing_failure(
      op, params, inputs, [&] { return infer_outputs(op, params.get(), in_specs); });
  const Kernel& kernel = *announcing_failure(op, params, inputs, [&] {
    return &op.select_kernel(device.type, params.get(), in_specs, out_specs);
  });
  if (collective::is_collective(kernel)) [[unlikely]]
    if (collective::Processes* processes = collective::running_processes()) {
      InvokeOptions placed = options;
      placed.device = device;
      announcing_failure(op, params, inputs,
                         [&] { collective::check_out(op, out_specs[0], placed); });
      return collective::run(*processes, op, params.get(), inputs[0], out_specs[0], placed);
    }

  KernelContext ctx{device, options.training, {}};
  if (const uint64_t count = count_random(op, params.get(), out_specs, options.training))
    ctx.random = reserve_random(device, count);
  auto* task = new OpTask(op, kernel, params, ctx, options.origin);
  engine::TaskRef task_ref(task);

  SmallVector<engine::Var*, 4> reads, updates;
  SmallVector<engine::Var*, 2> overwrites;
  size_t operand_bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool mutated = op.mutates(static_cast<int>(i), options.training);
    const NDArray* source = inputs[i].get();
    NDArrayRef copy;
    if (!source->contiguous() && !kernel.strided_inputs) {
      MX_CHECK(!mutated, op.name, ": ", op.input_name(static_cast<int>(i)),
               " is changed in place and must be contiguous");
      copy = contiguous(inputs[i]);
      source = copy.get();
    }
    task->add_input(*source);
    (mutated ? updates : reads).push_back(&source->storage()->var());
    operand_bytes += source->spec().bytes();
  }

  Storages storages;
  if (!options.out.empty())
    for (const NDArrayRef& a : inputs) storages.push_back(a->storage().get());
  NDArrays outputs;
  SmallVector<std::pair<NDArrayRef, NDArrayRef>, 1> copies_after;  // (temporary result, out=
  // array)
  size_t out_bytes = 0;
  const NDArrayRef none;
  for (size_t i = 0; i < out_specs.size(); ++i) {
    const NDArrayRef& target = i < options.out.size() ? options.out[i] : none;
    if (target) {
      MX_CHECK_SHAPE(target->shape() == out_specs[i].shape, op.name, ": out must have shape ",
                     out_specs[i].shape, ", got ", target->shape());
      MX_CHECK_KIND(same_side(target->device(), device), ErrorKind::kDevice, op.name,
                    ": out must be on the device of the inputs, ", device, ", got an array on ",
                    target->device());
    }
    NDArrayRef fresh;
    if (!target ||
        !writes_directly(op, *target, out_specs[i], static_cast<int>(i), inputs, storages))
      fresh = allocate_for(op, out_specs[i], [&] { return NDArray::empty(out_specs[i], device); });
    const NDArray& written = fresh ? *fresh : *target;
    task->add_output(written);
    // Writing to a view keeps the rest of its storage, including an earlier error of that storage.
    const bool whole = !target || written.spec().bytes() >= written.storage()->bytes();
    if (whole)
      overwrites.push_back(&written.storage()->var());
    else
      updates.push_back(&written.storage()->var());
    out_bytes += out_specs[i].bytes();
    if (!target) {
      outputs.push_back(std::move(fresh));
      continue;
    }
    if (fresh) copies_after.emplace_back(std::move(fresh), target);
    outputs.push_back(target);
  }

  engine::PushOptions push{.bytes = task->new_bytes()};
  if (device.type == DeviceType::kCUDA) {
    push.worker = engine::WorkerKind::kCompute;
    push.device = device.index;
    push.keep_operands = task->uses_foreign_memory();
  } else {
    push.may_inline = kernel.inline_ok && operand_bytes + out_bytes <= kInlineBytes;
  }
  engine::Engine::get().push(std::move(task_ref), {reads, overwrites, updates}, push);
  for (const auto& [from, to] : copies_after) copy_to(from, to);
  return outputs;
}

}  // namespace mxlite
