#include "cpp/graph/collective_run.h"

#include <cstdio>

#include "cpp/base/hash.h"
#include "cpp/core/accelerator.h"
#include "cpp/graph/host_op.h"
#include "cpp/ops/collective/run.h"
#include "cpp/ops/op_schema.h"

namespace mxlite::graph {
namespace {

using collective::Kind;
using collective::Terms;

constexpr size_t kCallsInText = 8;  // texts of errors list so many

bool is_collective(const Instruction& step) {
  return step.op && step.kernel && collective::is_collective(*step.op);
}

Terms terms_of(const Instruction& step) {
  return collective::terms_of(*step.op, step.params.get(), step.inputs[0].spec);
}

// Memory that is first used in a stream of a communicator, which waits for no allocation.
StorageRef allocate_now(Device device, size_t bytes) {
  StorageRef memory = Storage::allocate(device, bytes, StreamKind::kCopyIn);
  accelerator()->stream(device.index, StreamKind::kCopyIn).synchronize();
  return memory;
}

std::string why_separate(const Terms& terms, const TensorSpec& spec, Device device,
                         const collective::Processes& processes, int32_t& set) {
  if (terms.kind == Kind::kSend || terms.kind == Kind::kReceive) return "it sends messages";
  if (set >= 0 && terms.process_set != set)
    return str("it holds collectives of process sets ", set, " and ", terms.process_set);
  set = terms.process_set;
  if (spec.shape.size() == 0) return str(terms.text, " gets an array without elements");
  if (processes.place_of(terms.kind, spec.dtype, device) == device) return {};
  return str("NCCL does not carry ", terms.text, " of ", spec.dtype, " on ", device);
}

}  // namespace

bool runs_as_call(const Graph& graph, Device device, std::string& why) {
  if (device.type != DeviceType::kCUDA) return false;
  const collective::Processes* const processes = collective::running_processes();
  if (!processes || !processes->graphs_are_calls()) return false;
  int32_t set = -1;
  bool any = false;
  for (const Node& n : graph.nodes) {
    if (n.kind != NodeKind::kOp) continue;
    const bool collective = collective::is_collective(*n.op());
    any |= collective;
    if (collective) {
      const TensorSpec& spec = graph.spec(n.inputs[0]);
      const Terms terms = collective::terms_of(*n.op(), n.params().get(), spec);
      why = why_separate(terms, spec, device, *processes, set);
    } else if (n.call->host()) {
      why = str(n.name().label(), " runs on the host");
    }
    if (!why.empty()) return false;
  }
  return any;
}

void print_separate_calls(const std::string& name, const std::string& why) {
  std::fprintf(stderr, "mxlite: the collectives of %s are no part of CUDA graphs: %s\n",
               name.c_str(), why.c_str());
}

bool keeps_collectives(const Graph& graph, const Program& program) {
  std::vector<std::string> wanted, found;
  for (const Node& n : graph.nodes)
    if (n.kind == NodeKind::kOp && collective::is_collective(*n.op()))
      wanted.push_back(
          collective::terms_of(*n.op(), n.params().get(), graph.spec(n.inputs[0])).text);
  for (const Instruction& step : program.main)
    if (is_collective(step)) found.push_back(terms_of(step).text);
  return wanted == found;
}

std::shared_ptr<CollectiveSteps> CollectiveSteps::make(
    const Program& program, const Segment& main, Device device, const char* name,
    const std::vector<Replay::CallerArray>& arrays) {
  for (const Instruction& step : program.main)
    if (is_collective(step) && terms_of(step).kind != Kind::kNone)
      return std::make_shared<CollectiveSteps>(program, main, device, name, arrays);
  return nullptr;
}

CollectiveSteps::CollectiveSteps(const Program& program, const Segment& main, Device device,
                                 const char* name, std::vector<Replay::CallerArray> arrays)
    : program_(program), main_(main), device_(device), name_(name), hash_(kHashOfNothing) {
  std::string all;
  for (size_t i = 0; i < program.main.size(); ++i) {
    const Instruction& step = program.main[i];
    if (!is_collective(step)) continue;
    const Terms terms = terms_of(step);
    const TensorSpec& spec = step.inputs[0].spec;
    block_bytes_ =
        std::max(block_bytes_, collective::step_bytes(terms, spec, step.outputs[0].spec));
    if (terms.kind == Kind::kNone) continue;
    MX_ASSERT(steps_.empty() || terms.process_set == process_set_);
    steps_.push_back(i);
    process_set_ = terms.process_set;
    const std::string one = str(terms.text, " of ", spec.dtype, spec.shape);
    hash_ = hash_of(std::as_bytes(std::span(std::string_view(one + ";"))), hash_);
    if (steps_.size() <= kCallsInText) all += str(all.empty() ? "" : ", ", one);
  }
  if (steps_.size() > kCallsInText) all += str(", and ", steps_.size() - kCallsInText, " more");
  text_ = "a graph with " + all;  // Blocks may have other names on other ranks.
  ranks_ = collective::group_of(name_, process_set_).ranks;
  const auto allocate = [device](size_t bytes) { return allocate_now(device, bytes); };
  replay_ = std::make_unique<Replay>(
      name_, allocate, std::move(arrays),
      [this](std::span<void* const> bases, RandomState random, Stream& stream,
             const RandomState* device_random) { run(bases, random, stream, device_random); },
      /*waits=*/false);
}

CollectiveSteps::~CollectiveSteps() = default;

void CollectiveSteps::let_go() noexcept {
  const std::lock_guard lock(mutex_);
  if (replay_) replay_->drop_all();
}

void CollectiveSteps::end() noexcept {
  const std::lock_guard lock(mutex_);
  replay_.reset();
  memory_.reset();
}

void CollectiveSteps::check_ranks() const {
  const collective::Group now = collective::group_of(name_, process_set_);
  MX_CHECK_KIND(now.ranks == ranks_, ErrorKind::kCommunicator, name_,
                ": was compiled for a process set ", process_set_, " of ", ranks_.size(),
                " ranks, which has ", now.ranks.size(),
                " or other ones now; call hybridize() to compile it for them");
}

void CollectiveSteps::describe(collective::GraphCall& call) const {
  call.name = name_;
  call.process_set = process_set_;
  call.text = text_;
  call.hash = hash_;
  call.device = device_;
}

std::byte* CollectiveSteps::arena() {
  const size_t bytes = program_.arena_bytes + program_.scratch_bytes + block_bytes_;
  if (!memory_) memory_ = allocate_now(device_, std::max<size_t>(bytes, 1));
  return static_cast<std::byte*>(memory_->data());
}

// Parts between two collectives. An error of one is thrown at the end, unless they are recorded,
// because other ranks take part in the collectives that follow.
void CollectiveSteps::run(std::span<void* const> bases, RandomState random, Stream& stream,
                          const RandomState* device_random) {
  Segment::OnDevice on{&stream, device_random, collectives_, nullptr};
  on.memory = static_cast<std::byte*>(bases[Slots::kScratch]) + program_.scratch_bytes;
  std::exception_ptr error;
  const auto run_part = [&](size_t first, size_t last) {
    if (error || first == last) return;
    try {
      main_.run_steps(first, last, bases, random, on);
    } catch (...) {
      if (device_random) throw;
      error = std::current_exception();
    }
  };
  size_t next = 0;
  for (const size_t step : steps_) {
    run_part(next, step);
    main_.run_steps(step, step + 1, bases, random, on);
    next = step + 1;
  }
  run_part(next, program_.main.size());
  if (error) std::rethrow_exception(error);
}

}  // namespace mxlite::graph
