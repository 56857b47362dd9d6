// Runs planned kernels and native kernels on the same plain, channels-last and blocked inputs.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "cpp/ops/cpu/onednn/layout.h"
#include "cpp/ops/planned_kernel.h"
#include "tests/cpp/op_test_util.h"

namespace mxlite::test {

inline constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

enum class Start { kPlain, kChannelsLast, kBlocked };
inline constexpr Start kStarts[] = {Start::kPlain, Start::kChannelsLast, Start::kBlocked};

inline Layout layout_for(const TensorSpec& spec, Start start) {
  if (start == Start::kPlain || spec.shape.ndim() != 4) return {nullptr, spec.bytes()};
  if (start == Start::kChannelsLast)
    return onednn::make_layout(onednn::channels_last_of(spec.shape, spec.dtype));
  return onednn::make_layout(onednn::blocked_of(spec.shape, spec.dtype));
}

inline Tensor buffer(const Layout& layout, const TensorSpec& spec) {
  const size_t bytes = std::max(layout.bytes, spec.bytes());
  return Tensor({{static_cast<int64_t>(bytes)}, DType::kUInt8});
}

inline void run(const Plan& plan, std::span<void* const> in, std::span<void* const> out) {
  const Tensor scratch({{static_cast<int64_t>(plan.scratch_bytes + 64)}, DType::kUInt8});
  KernelContext ctx;
  plan.run(ctx, in, out, scratch.data());
}

inline Tensor moved(const Tensor& from, const TensorSpec& spec, const Layout& from_layout,
                    const Layout& to_layout) {
  Tensor to = buffer(to_layout, spec);
  const Plan plan = plan_reorder(spec, from_layout, spec, to_layout);
  void *in = from.data(), *out = to.data();
  run(plan, {&in, 1}, {&out, 1});
  return to;
}

struct PlannedCall {
  OpCall call;
  Start start = Start::kPlain;
  bool training = false;
  std::vector<uint8_t> constant = {};  // by input
  std::vector<PostOp> post_ops = {};
  std::vector<Tensor> extras = {};  // one per kAdd

  std::optional<Plan> plan(std::vector<Layout>& layouts) const {
    std::vector<TensorSpec> specs = call.input_specs();
    for (const Tensor& t : extras) specs.push_back(t.spec);
    layouts.clear();
    for (const TensorSpec& s : specs) layouts.push_back(layout_for(s, start));
    std::vector<uint8_t> fixed = constant;
    fixed.resize(specs.size());
    const auto outputs = call.output_specs();
    const PlannedKernel* kernel = find_planned_kernel(call.op, DeviceType::kCPU);
    if (!kernel) return std::nullopt;
    PlanRequest so_far{call.op, call.params.get(), training, call.input_specs(),
                       outputs, layouts,           fixed,    {}};
    const auto own_specs = call.input_specs();
    so_far.inputs = own_specs;
    size_t extra = 0;
    for (size_t i = 0; i < post_ops.size(); ++i) {
      so_far.post_ops = std::span(post_ops).first(i);
      const bool add = post_ops[i].kind == PostOp::Kind::kAdd;
      EXPECT_TRUE(kernel->can_fuse &&
                  kernel->can_fuse(so_far, post_ops[i], add ? &extras[extra].spec : nullptr))
          << call.op.name << " refuses post-op " << i;
      extra += add;
    }
    return kernel->plan(
        {call.op, call.params.get(), training, specs, outputs, layouts, fixed, post_ops});
  }

  // Returns outputs in the plain layout. Inputs that the op mutates are written back.
  std::optional<std::vector<Tensor>> run_planned() {
    std::vector<Layout> layouts;
    const auto p = plan(layouts);
    if (!p) return std::nullopt;
    std::vector<Tensor> all = call.inputs, ins, outs;
    for (const Tensor& t : extras) all.push_back(t);
    EXPECT_EQ(p->inputs.size(), all.size());
    EXPECT_EQ(p->outputs.size(), call.output_specs().size());
    std::vector<void*> in, out;
    const Layout plain{};
    for (size_t i = 0; i < all.size(); ++i) {
      const bool stays = p->inputs[i].is_plain();
      ins.push_back(stays ? all[i] : moved(all[i], all[i].spec, plain, p->inputs[i]));
      in.push_back(ins.back().data());
    }
    const auto specs = call.output_specs();
    for (size_t i = 0; i < specs.size(); ++i) {
      outs.push_back(buffer(p->outputs[i], specs[i]));
      out.push_back(outs.back().data());
    }
    for (const InplacePair& pair : p->required_inplace) {
      EXPECT_TRUE(same_layout(p->inputs[pair.input], p->outputs[pair.output]));
      std::memcpy(out[pair.output], in[pair.input], p->outputs[pair.output].bytes);
      in[pair.input] = out[pair.output];
    }
    run(*p, in, out);
    std::vector<Tensor> result;
    for (size_t i = 0; i < specs.size(); ++i) {
      result.emplace_back(specs[i]);
      if (p->outputs[i].is_plain())
        std::memcpy(result[i].data(), outs[i].data(), specs[i].bytes());
      else
        std::memcpy(result[i].data(), moved(outs[i], specs[i], p->outputs[i], plain).data(),
                    specs[i].bytes());
    }
    return result;
  }

  std::vector<Tensor> run_native() const {
    std::vector<Tensor> result = call.run("native", training);
    size_t extra = 0;
    for (const PostOp& p : post_ops) {
      if (p.kind == PostOp::Kind::kAdd) {
        for (int64_t i = 0; i < result[0].spec.shape.size(); ++i)
          result[0].set(i, result[0].at(i) + extras[extra].at(i));
        ++extra;
        continue;
      }
      const OpCall post{*p.op, p.params, {result[0]}};
      result[0] = post.run("native")[0];
    }
    return result;
  }

  void expect_equal(const std::string& what, double factor = 1) {
    const DType dtype = call.inputs[0].spec.dtype;
    if (!onednn::computes_in(dtype)) return;
    const auto expected = run_native();
    const auto got = run_planned();
    ASSERT_TRUE(got.has_value()) << call.op.name << ": no plan, " << what;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_error((*got)[i], expected[i]), factor * tolerance(dtype))
          << call.op.name << " output " << i << ", " << what << ", " << call.inputs[0].spec
          << ", start " << static_cast<int>(start);
  }

  // The plan takes input i in the given layout, and its output has the same layout.
  void expect_layout_kept(size_t i) const {
    if (!onednn::computes_in(call.inputs[0].spec.dtype)) return;
    std::vector<Layout> layouts;
    const auto p = plan(layouts);
    ASSERT_TRUE(p.has_value()) << call.op.name;
    EXPECT_TRUE(same_layout(p->inputs[i], layouts[i])) << call.op.name;
    EXPECT_TRUE(same_layout(p->outputs[0], layout_for(call.output_specs()[0], start)))
        << call.op.name;
  }
};

inline PostOp activation(const char* op, const Attrs& attrs) {
  const OpSchema& schema = ops().get(op);
  return {PostOp::Kind::kActivation, &schema, schema.make_params_by_name(attrs)};
}
inline PostOp addition() { return {PostOp::Kind::kAdd, &ops().get("elemwise_add"), nullptr}; }

inline std::vector<Tensor> tensors(const std::vector<Shape>& shapes, DType dtype) {
  std::vector<Tensor> list;
  for (const Shape& s : shapes)
    list.push_back(random_tensor({s, dtype}, static_cast<uint32_t>(11 + list.size())));
  return list;
}

}  // namespace mxlite::test
