// Calls the kernels of one operator directly on random data, without engine and Python.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpp/ops/op_schema.h"

namespace mxlite::test {

using Attrs = std::vector<std::pair<std::string_view, AttrValue>>;

// A contiguous tensor with 64-byte alignment.
struct Tensor {
  TensorSpec spec;
  std::shared_ptr<std::byte> memory;

  Tensor() = default;
  explicit Tensor(const TensorSpec& s) : spec(s) {
    const size_t bytes = (s.bytes() + 127) / 64 * 64;
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)), std::free);
    std::fill_n(memory.get(), bytes, std::byte{0x7f});  // recognizable where nothing is written
  }
  void* data() const { return memory.get(); }
  double at(int64_t i) const {
    return dispatch_dtype(spec.dtype, [&](auto tag) {
      return static_cast<double>(static_cast<const decltype(tag)*>(data())[i]);
    });
  }
  void set(int64_t i, double v) {
    dispatch_dtype(spec.dtype, [&](auto tag) {
      static_cast<decltype(tag)*>(data())[i] = static_cast<decltype(tag)>(static_cast<float>(v));
    });
  }
  TensorRef ref() const {
    return {data(), spec.shape, contiguous_strides(spec.shape), spec.dtype, true};
  }
};

inline Tensor random_tensor(const TensorSpec& spec, uint32_t seed, double low = -1,
                            double high = 1) {
  Tensor t(spec);
  std::mt19937 gen(seed);
  std::uniform_real_distribution<double> dist(low, high);
  for (int64_t i = 0; i < spec.shape.size(); ++i) t.set(i, dist(gen));
  return t;
}

struct OpCall {
  const OpSchema& op;
  ParamsRef params;
  std::vector<Tensor> inputs;

  OpCall(const char* name, const Attrs& attrs, std::vector<Tensor> in)
      : op(ops().get(name)), params(op.make_params_by_name(attrs)), inputs(std::move(in)) {}
  OpCall(const OpSchema& schema, ParamsRef p, std::vector<Tensor> in)
      : op(schema), params(std::move(p)), inputs(std::move(in)) {}

  std::vector<TensorSpec> input_specs() const {
    std::vector<TensorSpec> specs;
    for (const Tensor& t : inputs) specs.push_back(t.spec);
    return specs;
  }
  std::vector<TensorSpec> output_specs() const {
    const Specs specs = op.infer(params.get(), input_specs());
    return {specs.begin(), specs.end()};
  }
  const Kernel& selected() const {
    return op.select_kernel(DeviceType::kCPU, params.get(), input_specs(), output_specs());
  }
  const Kernel* find(std::string_view kernel) const {
    for (const Kernel& k : op.kernels[DeviceType::kCPU])
      if (kernel == k.name) return &k;
    return nullptr;
  }
  // Returns why the kernel refuses the call, or null if it takes it.
  const char* refusal(std::string_view kernel) const {
    const Kernel* k = find(kernel);
    if (!k) return "no such kernel";
    return k->supports ? k->supports(params.get(), input_specs(), output_specs()) : nullptr;
  }
  std::vector<Tensor> run(std::string_view kernel, bool training = false) const {
    std::vector<Tensor> outputs;
    std::vector<TensorRef> in, out;
    for (const Tensor& t : inputs) in.push_back(t.ref());
    for (const TensorSpec& s : output_specs()) outputs.emplace_back(s);
    for (const Tensor& t : outputs) out.push_back(t.ref());
    KernelContext ctx;
    ctx.training = training;
    find(kernel)->run(ctx, params.get(), in, out);
    return outputs;
  }
};

// Returns the largest |a - b| relative to the largest |b|.
inline double relative_error(const Tensor& a, const Tensor& b) {
  double worst = 0, scale = 1e-6;
  for (int64_t i = 0; i < b.spec.shape.size(); ++i) {
    const double difference = std::abs(a.at(i) - b.at(i));
    worst = std::max(worst, std::isnan(difference) ? INFINITY : difference);
    scale = std::max(scale, std::abs(b.at(i)));
  }
  return worst / scale;
}
inline double tolerance(DType dtype) { return dtype == DType::kFloat32 ? 2e-5 : 2e-2; }

}  // namespace mxlite::test
