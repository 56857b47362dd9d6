#include <algorithm>

#include "cpp/graph/rewrite.h"
#include "cpp/graph/run/program.h"
#include "cpp/ops/invoke.h"

namespace mxlite::graph {
namespace {

// One copy of a value, either in the layout of its producer or reordered.
struct Version {
  Layout layout;
  int32_t buffer = -1;
};

class Lowering {
 public:
  Lowering(const Graph& graph, const PassContext& context, const Border& border)
      : graph_(graph),
        context_(context),
        border_(border),
        is_static_(stays(graph, context)),
        uses_(count_uses(graph)) {}

  Program run() {
    program_.name = graph_.name;
    program_.training = graph_.training;
    versions_.resize(graph_.nodes.size());
    for (size_t i = 0; i < graph_.nodes.size(); ++i) lower(static_cast<int32_t>(i));
    add_outputs();
    mark_packed();
    program_.num_plain_outputs = std::min(border_.num_plain_outputs, program_.outputs.size());
    program_.donated = border_.donated;
    program_.donated.resize(program_.input_specs.size());
    program_.donated_bytes = border_.donated_bytes;
    program_.saved_inputs = border_.saved_inputs;
    program_.saved_inputs.resize(program_.input_specs.size());
    return std::move(program_);
  }

 private:
  // Note [Weights of training]
  // Every training step changes the weights. Packed forms are therefore computed in the arena for
  // each use. Otherwise forward and backward would each keep a packed copy between runs.
  static std::vector<uint8_t> stays(const Graph& graph, const PassContext& context) {
    if (!graph.training || context.device.type != DeviceType::kCPU) return find_static_nodes(graph);
    std::vector<uint8_t> result(graph.nodes.size());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = graph.nodes[i].kind == NodeKind::kConstant;
    return result;
  }

  std::vector<Version>& versions(ValueId v) {
    auto& by_output = versions_[static_cast<size_t>(v.node)];
    by_output.resize(graph_.node(v).outputs.size());
    return by_output[static_cast<size_t>(v.output)];
  }

  int32_t add_buffer(Place place, size_t bytes, int index = -1) {
    Buffer b;
    b.place = place;
    b.index = index;
    b.bytes = bytes;
    program_.buffers.push_back(b);
    return static_cast<int32_t>(program_.buffers.size() - 1);
  }

  static size_t bytes_of(const TensorSpec& spec, const Layout& layout) {
    return layout.is_plain() ? spec.bytes() : layout.bytes;
  }

  void lower(int32_t id) {
    const Node& n = graph_.node(id);
    const ValueId first{id, 0};
    switch (n.kind) {
      case NodeKind::kInput:
        lower_input(n, versions(first));
        return;
      case NodeKind::kParameter:
        versions(first) = {{{}, add_buffer(Place::kParameter, n.outputs[0].bytes(), n.index)}};
        program_.parameter_specs.push_back(n.outputs[0]);
        return;
      case NodeKind::kConstant:
        versions(first) = {{{},
                            add_buffer(Place::kConstant, n.outputs[0].bytes(),
                                       static_cast<int>(program_.constants.size()))}};
        program_.constants.push_back(contiguous(n.value));
        return;
      case NodeKind::kOp:
        if (n.op()->alias && n.post_ops.empty())
          lower_alias(id, n);
        else
          lower_op(id, n);
    }
  }

  void lower_input(const Node& n, std::vector<Version>& known) {
    const auto i = static_cast<size_t>(n.index);
    const Layout layout = i < border_.input_layouts.size() ? border_.input_layouts[i] : Layout{};
    known = {{layout, add_buffer(Place::kInput, bytes_of(n.outputs[0], layout), n.index)}};
    program_.input_specs.push_back(array_spec(n.outputs[0], layout));
  }

  // Returns the spec of an array that holds a value in this layout.
  static TensorSpec array_spec(const TensorSpec& spec, const Layout& layout) {
    if (layout.is_plain()) return spec;
    return {Shape{static_cast<int64_t>(layout.bytes)}, DType::kUInt8};
  }

  // Lowers a reshape. Its output is the memory of the input in the plain layout.
  void lower_alias(int32_t id, const Node& n) {
    versions({id, 0}) = {{{}, in_layout(n.inputs[0], {}, stage(id)).buffer}};
  }

  std::vector<Instruction>& stage(int32_t id) {
    return is_static_[static_cast<size_t>(id)] ? program_.prologue : program_.main;
  }

  // Returns the value in the wanted layout. Adds a reorder if no such copy exists. The reorder of a
  // static value runs in the prologue unless `each_run` is true.
  Version in_layout(ValueId v, const Layout& wanted, std::vector<Instruction>& user,
                    bool each_run = false) {
    std::vector<Version>& known = versions(v);
    for (const Version& version : known)
      if (same_layout(version.layout, wanted)) return version;
    const TensorSpec& spec = graph_.spec(v);
    const Version from = known[0];
    const bool is_static = is_static_[static_cast<size_t>(v.node)];
    auto& where = is_static && !each_run ? program_.prologue : user;
    if (is_static && each_run) move_from_prologue(v, user);
    Instruction reorder;
    reorder.name = graph_.node(v).name().with("_reorder").label();
    reorder.plan = std::make_shared<Plan>(plan_reorder(spec, from.layout, spec, wanted));
    reorder.inputs = {{from.buffer, spec, from.layout}};
    const Version made{wanted, add_buffer(Place::kArena, bytes_of(spec, wanted))};
    reorder.outputs = {{made.buffer, spec, wanted}};
    where.push_back(std::move(reorder));
    // If this copy is not in the prologue, the prologue may need a separate copy.
    if (!is_static || !each_run) known.push_back(made);
    return made;
  }

  // Moves the computation of a static value from the prologue to `user` if no other instruction
  // reads it.
  void move_from_prologue(ValueId v, std::vector<Instruction>& user) {
    if (uses_[static_cast<size_t>(v.node)][static_cast<size_t>(v.output)] != 1) return;
    auto& prologue = program_.prologue;
    const int32_t buffer = versions(v)[0].buffer;
    const auto maker = std::find_if(prologue.begin(), prologue.end(), [&](const Instruction& i) {
      return i.outputs.size() == 1 && i.outputs[0].buffer == buffer;
    });
    if (maker == prologue.end()) return;
    user.push_back(std::move(*maker));
    prologue.erase(maker);
  }

  void lower_op(int32_t id, const Node& n) {
    std::vector<Instruction>& list = stage(id);
    std::vector<TensorSpec> specs;
    std::vector<Layout> layouts;
    std::vector<uint8_t> constant;
    for (ValueId v : n.inputs) {
      specs.push_back(graph_.spec(v));
      layouts.push_back(versions(v)[0].layout);
      constant.push_back(is_static_[static_cast<size_t>(v.node)]);
    }
    Instruction step;
    step.name = n.name().label();
    step.op = n.op();
    step.params = n.params();
    const PlanRequest request{*n.op(),   n.params().get(), graph_.training, specs,
                              n.outputs, layouts,          constant,        n.post_ops};
    std::optional<Plan> plan;
    if (!context_.small)
      if (const PlannedKernel* planned = find_planned_kernel(*n.op(), context_.device.type))
        if (planned->plan) plan = planned->plan(request);
    if (plan)
      step.plan = std::make_shared<Plan>(std::move(*plan));
    else
      step.kernel = &plain_kernel(n, specs);

    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const Layout wanted = step.plan ? step.plan->inputs[k] : Layout{};
      const bool each_run =
          step.plan && k < step.plan->reorder_each_run.size() && step.plan->reorder_each_run[k];
      const Version version = in_layout(n.inputs[k], wanted, list, each_run);
      step.inputs.push_back({version.buffer, specs[k], version.layout});
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const Layout given = step.plan ? step.plan->outputs[k] : Layout{};
      const int32_t buffer = add_buffer(Place::kArena, bytes_of(n.outputs[k], given));
      versions({id, static_cast<int32_t>(k)}) = {{given, buffer}};
      step.outputs.push_back({buffer, n.outputs[k], given});
    }
    // A kernel that writes a parameter must get the parameter itself and not a reordered copy.
    for (size_t k = 0; k < n.inputs.size(); ++k)
      MX_ASSERT(!n.op()->mutates(static_cast<int>(k), graph_.training) ||
                step.inputs[k].layout.is_plain());
    if (step.plan) step.must_share = step.plan->required_inplace;
    for (const InplacePair p : n.op()->inplace)
      if (static_cast<size_t>(p.input) < n.inputs.size() &&
          static_cast<size_t>(p.output) < n.outputs.size() &&
          !(step.plan && read_twice(step, static_cast<size_t>(p.input))))
        step.may_share.push_back(p);
    step.random_offset = program_.random_count;
    program_.random_count += count_random(*n.op(), n.params().get(), n.outputs, graph_.training);
    list.push_back(std::move(step));
  }

  // Returns whether a step reads an input's buffer twice. The library may overwrite such a buffer
  // between the two reads.
  static bool read_twice(const Instruction& step, size_t input) {
    const int32_t buffer = step.inputs[input].buffer;
    return std::ranges::count(step.inputs, buffer, &Operand::buffer) > 1;
  }

  const Kernel& plain_kernel(const Node& n, std::span<const TensorSpec> specs) const {
    MX_ASSERT(n.post_ops.empty());  // can_fuse guarantees that `plan` accepts the post-ops
    if (context_.small) return *find_inline_kernel(n, specs, context_.device.type);
    return n.op()->select_kernel(context_.device.type, n.params().get(), specs, n.outputs);
  }

  // Gives every plain output a new array; see Note [Copied outputs]. Saved values are never
  // written, so equal saved values may share memory.
  void add_outputs() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId v = graph_.outputs[i];
      const bool plain = i < border_.num_plain_outputs;
      const auto same = std::find(graph_.outputs.begin(), graph_.outputs.end(), v);
      const auto first = static_cast<size_t>(same - graph_.outputs.begin());
      if (!plain && first < i) {
        program_.outputs.push_back(program_.outputs[first]);
        continue;
      }
      const Version version = plain ? in_layout(v, {}, program_.main) : versions(v)[0];
      int32_t id = version.buffer;
      if (buffer(id).place != Place::kArena || is_static_[static_cast<size_t>(v.node)])
        id = add_copy(version, graph_.spec(v));
      buffer(id).place = Place::kOutput;
      buffer(id).index = num_output_buffers_++;
      program_.outputs.push_back({id, array_spec(graph_.spec(v), version.layout), version.layout});
    }
  }

  Buffer& buffer(int32_t id) { return program_.buffers[static_cast<size_t>(id)]; }

  int32_t add_copy(const Version& from, const TensorSpec& spec) {
    Instruction copy;
    copy.name = "copy_of_output";
    copy.inputs = {{from.buffer, spec, from.layout}};
    const int32_t to = add_buffer(Place::kArena, bytes_of(spec, from.layout));
    copy.outputs = {{to, spec, from.layout}};
    program_.main.push_back(std::move(copy));
    return to;
  }

  // Marks results of the prologue that the main part uses. These results are kept between runs.
  void mark_packed() {
    std::vector<uint8_t> made(program_.buffers.size());
    for (const Instruction& i : program_.prologue)
      for (const Operand& o : i.outputs) made[static_cast<size_t>(o.buffer)] = 1;
    for (const Instruction& i : program_.main)
      for (const Operand& o : i.inputs)
        if (made[static_cast<size_t>(o.buffer)])
          program_.buffers[static_cast<size_t>(o.buffer)].place = Place::kPacked;
  }

  const Graph& graph_;
  const PassContext& context_;
  const Border& border_;
  std::vector<uint8_t> is_static_;
  std::vector<std::vector<int>> uses_;
  std::vector<std::vector<std::vector<Version>>> versions_;  // indexed by node and output
  int num_output_buffers_ = 0;
  Program program_;
};

}  // namespace

const Kernel* find_inline_kernel(const Node& node, std::span<const TensorSpec> inputs,
                                 DeviceType device) {
  if (!node.post_ops.empty()) return nullptr;
  const auto& kernels = node.op()->kernels[device];
  for (const Kernel& k : kernels)
    if (k.inline_ok && !(k.supports && k.supports(node.params().get(), inputs, node.outputs)))
      return &k;
  return nullptr;
}

bool is_small(const Graph& graph, DeviceType device) {
  if (device == DeviceType::kCUDA) return false;  // only the stream's worker may submit
  constexpr size_t kInlineBytes = 64 << 10;       // same limit as in ops/invoke.cc
  constexpr size_t kMostNodes = 64;
  size_t bytes = 0, ops = 0;
  for (const Node& n : graph.nodes) {
    for (const TensorSpec& s : n.outputs) {
      if (s.bytes() == 0) return false;  // only select_kernel skips kernels whose outputs are empty
      bytes += s.bytes();
    }
    if (n.kind != NodeKind::kOp) continue;
    if (bytes > kInlineBytes || ++ops > kMostNodes) return false;
    std::vector<TensorSpec> inputs;
    for (ValueId v : n.inputs) inputs.push_back(graph.spec(v));
    if (!n.op()->alias && !find_inline_kernel(n, inputs, device)) return false;
  }
  return bytes <= kInlineBytes;
}

Program propagate_layout(const Graph& graph, const PassContext& context, const Border& border) {
  return Lowering(graph, context, border).run();
}

}  // namespace mxlite::graph
