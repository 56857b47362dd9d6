#include "cpp/graph/run/executable.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>

#include "cpp/core/cpu/large_blocks.h"
#include "cpp/engine/blocking.h"
#include "cpp/engine/mark.h"
#include "cpp/graph/passes/passes.h"
#include "cpp/ndarray/memory_profile.h"

namespace mxlite::graph {
namespace {

std::atomic<size_t> total_own_bytes{0};

std::vector<int> parameters_of(const Program& program, const std::vector<Instruction>& part,
                               bool written) {
  std::vector<uint8_t> reads(program.parameter_specs.size()), writes(reads.size());
  for (const Instruction& step : part)
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const Buffer& b = program.root(step.inputs[k].buffer);
      if (b.place != Place::kParameter) continue;
      const bool mutated = step.op && step.op->mutates(static_cast<int>(k), program.training);
      (mutated ? writes : reads)[static_cast<size_t>(b.index)] = 1;
    }
  std::vector<int> result;
  for (size_t i = 0; i < reads.size(); ++i)
    if (written ? writes[i] : reads[i] && !writes[i]) result.push_back(static_cast<int>(i));
  return result;
}

}  // namespace

const char* task_name_of(const std::string& graph_name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return names->insert(graph_name.empty() ? "graph" : graph_name).first->c_str();
}

class Executable::MainTask final : public engine::Task, public RunOperands {
 public:
  MainTask(Executable& e, const char* name, engine::Origin origin)
      : Task(name, origin), RunOperands(e.slots_.count), executable_(&e) {}

  void run() override {
    const Executable& e = *executable_;
    const Program& p = e.program_;
    take_addresses();
    Arena::Use memory(*e.arena_, p.arena_bytes + p.scratch_bytes);
    bases_[Slots::kArena] = memory.data();
    bases_[Slots::kScratch] = memory.data() + p.arena_bytes;
    set_constants(e.slots_, p);
    if (Stream* stream = engine::current_stream())
      e.replay_->run(bases_, random_, *stream, kept_);
    else
      e.main_.run(bases_, random_);
  }
  // Runs one segment. Other tasks may run between segments, so the shared arena cannot be used.
  void run_segment(size_t segment) {
    Executable& e = *executable_;
    const Program& p = e.program_;
    const size_t first = e.segments_[segment].first, last = e.segments_[segment].last;
    Stream* const stream = engine::current_stream();
    if (first == 0) {
      take_addresses();
      const size_t bytes = p.arena_bytes + p.scratch_bytes;
      between_ = stream ? e.segment_memory_->take_saved(bytes, e.device_)
                        : Storage::allocate(e.device_, bytes);
      bases_[Slots::kArena] = between_->data();
      bases_[Slots::kScratch] = static_cast<std::byte*>(between_->data()) + p.arena_bytes;
      set_constants(e.slots_, p);
    }
    if (stream) {
      // Slots that the segment does not use get an address that is the same in all runs.
      const SegmentReplay& own = e.segment_replays_[segment];
      SmallVector<void*, 12> bases = bases_;
      for (size_t slot = 0; slot < bases.size(); ++slot)
        if (!own.used_slots[slot]) bases[slot] = bases_[Slots::kArena];
      own.replay->run(bases, random_, *stream, kept_);
      engine::mark_end_of_task();
    } else {
      e.main_.run_steps(first, last, bases_, random_, {});
    }
    if (last == p.main.size()) between_.reset();
  }
  engine::Var& order() { return order_; }  // returns the variable that orders the segments
  void release_operands() noexcept override {
    held_.clear();
    executable_.reset();
  }

 private:
  IntrusivePtr<Executable> executable_;
  StorageRef between_;
  engine::Var order_;
};

class Executable::SegmentTask final : public engine::Task {
 public:
  SegmentTask(IntrusivePtr<MainTask> whole, size_t segment)
      : Task(whole->name, whole->origin), whole_(std::move(whole)), segment_(segment) {}
  void run() override { whole_->run_segment(segment_); }
  void release_operands() noexcept override { whole_.reset(); }

 private:
  IntrusivePtr<MainTask> whole_;
  const size_t segment_;
};

ExecutableRef Executable::compile(Graph graph, Device device, bool exact, const Border& border) {
  PassContext context{device, exact, is_small(graph, device.type)};
  for (const Layout& layout : border.input_layouts) context.small &= layout.is_plain();
  graph = run_passes(exact ? Pipeline::kTraining : Pipeline::kInference, std::move(graph), context);
  return make_ref<Executable>(lower(graph, context, border), device, context.small);
}

Executable::Executable(Program program, Device device, bool may_inline)
    : program_(std::move(program)),
      device_(device),
      may_inline_(may_inline),
      task_name_(task_name_of(program_.name)),
      slots_(program_),
      main_(program_, program_.main, device),
      arena_(Arena::shared(device)),
      read_parameters_(parameters_of(program_, program_.main, false)),
      written_parameters_(parameters_of(program_, program_.main, true)) {
  for (const auto& packing : program_.packings) packed_.push_back({packing, nullptr, {}});
  output_buffers_.resize(slots_.count - slots_.outputs);
  for (const Program::Output& o : program_.outputs) {
    const int slot = program_.root(o.buffer).index;
    output_buffers_[static_cast<size_t>(slot)] = o.spec;
  }
  saved_.resize(output_buffers_.size());
  for (const Program::Output& o : program_.outputs)
    saved_[static_cast<size_t>(program_.root(o.buffer).index)] = o.saved;
  if (device_.type == DeviceType::kCUDA) prepare_for_gpu();
  own_bytes_ = program_.memory_estimate();
  total_own_bytes += own_bytes_;
}

Executable::~Executable() {
  total_own_bytes -= own_bytes_;
  // Frees the cached block of saved values, which the last run has returned to the allocator.
  if (device_.type == DeviceType::kCPU && program_.saved_bytes)
    discard_cached(program_.saved_bytes);
}

size_t Executable::total_bytes() { return total_own_bytes; }

void Executable::add_to(size_t& own, std::vector<std::pair<const void*, size_t>>& shared) {
  own += own_bytes_;
  const auto lock = engine::lock_without_gil(mutex_);
  for (const PackedWeights::Use& use : packed_)
    if (use.values) shared.emplace_back(use.values.get(), use.values->memory()->bytes());
}

void Executable::prepare_for_gpu() {
  // Waits for the constants here, because the tasks do not declare that they read constants.
  for (const NDArrayRef& constant : program_.constants) constant->wait_to_read();
  output_memory_ = std::make_shared<OutputMemory>();
  replay_ = make_replay(0, program_.main.size(), std::vector<uint8_t>(slots_.count, 1));
}

std::unique_ptr<Replay> Executable::make_replay(size_t first, size_t last,
                                                const std::vector<uint8_t>& may_move) {
  const auto allocate = [device = device_](size_t bytes) {
    return Storage::allocate(device, bytes);
  };
  std::vector<Replay::CallerArray> arrays;
  const auto add = [&](uint32_t slot, size_t bytes, bool is_output) {
    if (may_move[slot]) arrays.push_back({slot, bytes, is_output});
  };
  for (uint32_t i = 0; i < program_.input_specs.size(); ++i)
    if (!program_.saved_inputs[i]) add(slots_.inputs + i, program_.input_specs[i].bytes(), false);
  for (uint32_t i = 0; i < output_buffers_.size(); ++i)
    if (!saved_[i]) add(slots_.outputs + i, output_buffers_[i].bytes(), true);
  return std::make_unique<Replay>(
      task_name_, allocate, std::move(arrays),
      [this, first, last](std::span<void* const> bases, RandomState random, Stream& stream,
                          const RandomState* device_random) {
        main_.run_steps(first, last, bases, random, {.stream = &stream, .random = device_random});
      });
}

void Executable::make_segment_replays() {
  segment_memory_ = std::make_unique<OutputMemory>();
  for (const ProgramSegment& segment : segments_) {
    std::vector<uint8_t> used(slots_.count);
    used[Slots::kArena] = used[Slots::kScratch] = 1;
    for (size_t i = segment.first; i < segment.last; ++i)
      for (const auto* operands : {&program_.main[i].inputs, &program_.main[i].outputs})
        for (const Operand& o : *operands) used[slots_.of(program_.root(o.buffer))] = 1;
    // A copy of an output would not contain the values that earlier segments have written.
    std::vector<uint8_t> may_move = used;
    for (const auto* begun_earlier : {&segment.reads, &segment.updates})
      for (const int slot : *begun_earlier)
        may_move[slots_.outputs + static_cast<size_t>(slot)] = 0;
    segment_replays_.push_back({make_replay(segment.first, segment.last, may_move), used});
  }
}

engine::PushOptions Executable::push_options() const {
  if (device_.type == DeviceType::kCUDA)
    return {.worker = engine::WorkerKind::kCompute, .device = device_.index};
  return {.may_inline = may_inline_};
}

void Executable::check_parameters(std::span<const NDArrayRef> parameters) const {
  MX_ASSERT(parameters.size() == program_.parameter_specs.size());
  for (size_t i = 0; i < parameters.size(); ++i)
    MX_CHECK_SHAPE(parameters[i]->spec() == program_.parameter_specs[i], program_.name,
                   ": parameter ", i, " must be ", program_.parameter_specs[i],
                   " as when the graph was compiled, got ", parameters[i]->spec());
}

void Executable::add_packed(const LaunchArgs& call, RunOperands& task,
                            SmallVector<engine::Var*, 8>& reads) {
  const auto lock = engine::lock_without_gil(mutex_);
  const auto is_current = [&](const PackedWeights::Use& use) {
    return use.is_current(call.parameters);
  };
  if (!std::ranges::all_of(packed_, is_current)) {
    PackedWeights::update(packed_, call.parameters, device_, push_options(), arena_);
    for (size_t i = 0; i < packed_.size(); ++i) program_.packings[i] = packed_[i].packing;
  }
  for (size_t i = 0; i < packed_.size(); ++i) {
    const StorageRef& memory = packed_[i].values->memory();
    task.set_packed(slots_.packed + static_cast<uint32_t>(i), memory);
    reads.push_back(&memory->var());
  }
}

void Executable::forget_packed() {
  std::vector<std::shared_ptr<PackedWeights>> gone;  // destroyed after the lock is released
  const auto lock = engine::lock_without_gil(mutex_);
  for (PackedWeights::Use& use : packed_) {
    gone.push_back(std::exchange(use.values, nullptr));
    use.seen.clear();
  }
}

const std::vector<ProgramSegment>& Executable::segments() {
  std::call_once(cut_once_, [this] {
    if (may_inline_ || !written_parameters_.empty()) return;
    segments_ = cut_into_segments(program_, output_buffers_.size());
    if (replay_ && segments_.size() > 1) make_segment_replays();
  });
  return segments_;
}

// A call that is ready to be pushed, with the variables and arrays that it uses.
struct Executable::Prepared {
  IntrusivePtr<MainTask> task;
  SmallVector<engine::Var*, 8> reads;
  SmallVector<engine::Var*, 4> updates, overwrites;
  SmallVector<NDArrayRef, 4> kept;  // contiguous copies that must stay alive
  std::vector<NDArrayRef> fresh;    // indexed by output slot
  NDArrays outputs;
};

Executable::Prepared Executable::prepare(const LaunchArgs& call) {
  check_parameters(call.parameters);
  Prepared prepared;
  auto& [task, reads, updates, overwrites, kept, fresh, outputs] = prepared;
  task = make_ref<MainTask>(*this, task_name_, call.origin);
  auto dense = [&](const NDArrayRef& a) -> const NDArray& {
    if (a->contiguous()) return *a;
    kept.push_back(contiguous(a));
    return *kept.back();
  };

  const Storage* donated = nullptr;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const NDArray& a = dense(call.inputs[i]);
    task->set(slots_.inputs + static_cast<uint32_t>(i), a);
    if (const Saved at = program_.donated[i]) {
      MX_ASSERT(!donated || donated == a.storage().get());
      if (donated) continue;
      donated = a.storage().get();
      task->set_donated(a);
    }
    reads.push_back(&a.storage()->var());
  }
  for (int i : read_parameters_) {
    const NDArray& a = dense(call.parameters[static_cast<size_t>(i)]);
    task->set(slots_.parameters + static_cast<uint32_t>(i), a);
    reads.push_back(&a.storage()->var());
  }
  for (int i : written_parameters_) {
    const NDArray& a = *call.parameters[static_cast<size_t>(i)];
    MX_CHECK(a.contiguous(), program_.name, ": parameter ", i,
             " is changed in place and must be contiguous");
    task->set(slots_.parameters + static_cast<uint32_t>(i), a);
    updates.push_back(&a.storage()->var());
  }
  if (!packed_.empty()) add_packed(call, *task, reads);
  if (program_.random_count) {
    const RandomState random = reserve_random(device_, program_.random_count);
    task->set_random(random);
    if (call.random) *call.random = random;
  }

  fresh.resize(output_buffers_.size());
  for (size_t k = 0; k < call.into.size(); ++k) {
    const auto slot = static_cast<size_t>(program_.root(program_.outputs[k].buffer).index);
    const NDArrayRef& given = call.into[k];
    if (!given || fresh[slot] || given->spec() != output_buffers_[slot]) continue;
    MX_ASSERT(given->contiguous() && given->device() == device_);
    fresh[slot] = given;
    if (output_memory_) task->set_kept(slots_.outputs + static_cast<uint32_t>(slot));
  }
  StorageRef block;
  if (program_.saved_bytes) {
    const auto provide = [memory = output_memory_, bytes = program_.saved_bytes, device = device_,
                          name = task_name_] {
      const MemoryScope scope(name);
      return memory->take_saved(bytes, device);
    };
    // On a GPU, the task allocates the memory when it runs. Allocating here would make this call
    // wait for queued tasks of other streams.
    block = output_memory_ ? Storage::provided(device_, program_.saved_bytes, provide)
                           : Storage::allocate(device_, program_.saved_bytes);
    overwrites.push_back(&block->var());
  }
  for (size_t i = 0; i < output_buffers_.size(); ++i) {
    const TensorSpec& spec = output_buffers_[i];
    const bool in_block = block && saved_[i];
    if (in_block)
      fresh[i] = NDArray::view_of(
          block, spec, contiguous_strides(spec.shape),
          static_cast<int64_t>(saved_[i].offset / static_cast<size_t>(dtype_size(spec.dtype))));
    else if (!fresh[i] && output_memory_)
      fresh[i] = output_memory_->take(i, spec, device_);
    else if (!fresh[i])
      fresh[i] = NDArray::empty(spec, device_);
    task->set(slots_.outputs + static_cast<uint32_t>(i), *fresh[i]);
    if (!in_block) overwrites.push_back(&fresh[i]->storage()->var());
  }
  for (const Program::Output& o : program_.outputs) {
    const NDArrayRef& array = fresh[static_cast<size_t>(program_.root(o.buffer).index)];
    outputs.push_back(array->spec() == o.spec ? array
                                              // Reshapes the array to the output's spec.
                                              : NDArray::from_storage(array->storage(), o.spec));
  }
  return prepared;
}

NDArrays Executable::launch(const LaunchArgs& call) {
  Prepared prepared = prepare(call);
  engine::PushOptions push = push_options();
  push.bytes = prepared.task->new_bytes();
  push.keep_operands = replay_ && prepared.task->uses_foreign_memory();
  engine::Engine::get().push(std::move(prepared.task),
                             {prepared.reads, prepared.overwrites, prepared.updates}, push);
  return std::move(prepared.outputs);
}

NDArrays Executable::launch_segments(const LaunchArgs& call) {
  Prepared prepared = prepare(call);
  const auto var_of = [&](int slot) {
    return &prepared.fresh[static_cast<size_t>(slot)]->storage()->var();
  };
  const bool keeps_operands = replay_ && prepared.task->uses_foreign_memory();
  const size_t count = segments().size();
  for (size_t number = 0; number < count; ++number) {
    const ProgramSegment& segment = segments_[number];
    std::vector<engine::Var*> reads(prepared.reads.begin(), prepared.reads.end()), overwrites;
    std::vector<engine::Var*> updates{&prepared.task->order()};
    for (int slot : segment.reads) reads.push_back(var_of(slot));
    for (int slot : segment.overwrites) overwrites.push_back(var_of(slot));
    for (int slot : segment.updates) updates.push_back(var_of(slot));
    engine::PushOptions push = push_options();
    push.keep_operands = keeps_operands;
    if (number + 1 == count) push.bytes = prepared.task->new_bytes();
    engine::Engine::get().push(make_ref<SegmentTask>(prepared.task, number),
                               {reads, overwrites, updates}, push);
  }
  return std::move(prepared.outputs);
}

Executable::Work Executable::work(const LaunchArgs& call) {
  MX_ASSERT(can_be_part_of_a_task());
  Prepared prepared = prepare(call);
  const size_t bytes = prepared.task->new_bytes();
  return {std::move(prepared.task), std::move(prepared.outputs), std::move(prepared.reads), bytes};
}

bool Executable::can_be_part_of_a_task() const {
  return device_.type == DeviceType::kCPU && written_parameters_.empty();
}

}  // namespace mxlite::graph
