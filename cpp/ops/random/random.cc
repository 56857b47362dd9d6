// Random arrays. A call reserves its counters when it is pushed, so values depend on the seed and
// on the order of calls, not on threads.
#include <limits>
#include <type_traits>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/random/distributions.h"
#include "cpp/ops/registration.h"
#include "cpp/ops/tensor/creation.h"

namespace mxlite {
namespace random {

// One counter per element suffices for any number of random words: each counter has many streams.
uint64_t counters_for(int64_t n) { return static_cast<uint64_t>(n); }

namespace {

void check_floating(const std::string& op, DType dtype) {
  MX_CHECK_DTYPE(is_floating(dtype), op,
                 ": dtype must be float16, bfloat16, float32 or float64, got ", dtype);
}

const auto kCount = [](const auto&, std::span<const TensorSpec> out) -> uint64_t {
  return counters_for(out[0].shape.size());
};

template <class D>
OpSchema draw_schema() {
  const std::string name = std::string("random_") + D::name;
  std::vector<std::string> aliases = {"_" + name};
  if (std::is_same_v<D, Uniform> || std::is_same_v<D, Normal>) aliases.emplace_back(D::name);
  return OpBuilder<DrawParams<D>>(name)
      .inputs({})
      .alias(aliases)
      .doc(D::doc)
      .infer([name](const DrawParams<D>& p, std::span<const TensorSpec>) -> Specs {
        const TensorSpec out{p.shape.value_or(Shape{1}), p.dtype.value_or(DType::kFloat32)};
        check_made_shape(name, out.shape);
        check_floating(name, out.dtype);
        return {out};
      })
      .random(kCount)
      .zero_gradient()
      .symbol({.shape_from_users = true, .output_type = OutputType::kDtype});
}

template <class D>
OpSchema like_schema() {
  const std::string name = std::string("_random_") + D::name + "_like";
  return OpBuilder<LikeParams<D>>(name)
      .doc(std::string(D::doc) + " The output has the shape and dtype of data.")
      .infer([name](const LikeParams<D>&, std::span<const TensorSpec> in) -> Specs {
        check_floating(name, in[0].dtype);
        return {in[0]};
      })
      .refine(refine_all_alike)
      .random(kCount)
      .zero_gradient();
}

// Both parameters have one shape; the output's shape is that shape followed by p.shape.
void refine_samples(const SampleParams& p, PartialShapes& shapes) {
  for (int i = 0; i < shapes.num_inputs(); ++i) {
    Shape out = shapes.input(i);
    if (out.ndim() < 0) continue;
    for (const int64_t dim : p.shape) out.push_back(dim);
    shapes.refine_output(0, out);
  }
  const Shape& out = shapes.output(0);
  if (out.ndim() <= p.shape.ndim()) return;
  const Shape params(out.span().first(static_cast<size_t>(out.ndim() - p.shape.ndim())));
  for (int i = 0; i < shapes.num_inputs(); ++i) shapes.refine_input(i, params);
}

template <class D>
OpSchema sample_schema() {
  const std::string name = std::string("sample_") + D::name;
  std::vector<std::string> inputs = {D::sample_a};
  if (D::count == 2) inputs.emplace_back(D::sample_b);
  return OpBuilder<SampleParams>(name)
      .inputs(inputs)
      .alias({"_" + name})
      .doc(std::string(D::doc) + " Each element of the parameter arrays gets draws of its own; " +
           (std::is_same_v<D, Uniform>
                ? "low may be above high."
                : "parameters outside of the distribution's domain give NaN."))
      .infer([name](const SampleParams& p, std::span<const TensorSpec> in) -> Specs {
        if (in.size() == 2) {
          MX_CHECK_SHAPE(may_equal(in[0].shape, in[1].shape), name,
                         ": parameters must have equal shapes, got ", in[0].shape, " and ",
                         in[1].shape);
          MX_CHECK_DTYPE(in[0].dtype == in[1].dtype, name,
                         ": parameters must have equal dtypes, got ", in[0].dtype, " and ",
                         in[1].dtype);
        }
        const DType like = is_floating(in[0].dtype) ? in[0].dtype : DType::kFloat32;
        TensorSpec out{merged(in[0].shape, in.back().shape), p.dtype.value_or(like)};
        check_floating(name, out.dtype);
        for (const int64_t dim : p.shape) out.shape.push_back(dim);
        return {out};
      })
      .refine(refine_samples)
      .random(kCount)
      .zero_gradient()
      .symbol({.output_type = OutputType::kDtype});
}

Specs infer_randint(const RandintParams& p, std::span<const TensorSpec>) {
  const TensorSpec out{p.shape.value_or(Shape{1}), p.dtype.value_or(DType::kInt32)};
  check_made_shape("random_randint", out.shape);
  MX_CHECK_DTYPE(out.dtype == DType::kInt32 || out.dtype == DType::kInt64,
                 "random_randint: dtype must be int32 or int64, got ", out.dtype);
  MX_CHECK(p.low < p.high, "random_randint: low must be below high, got low ", p.low, " and high ",
           p.high);
  return {out};
}

// Returns how many consecutive integers 0, 1, 2, ... a type can represent.
int64_t counting_range(DType dtype) {
  return dispatch_dtype(dtype, [](auto t) -> int64_t {
    using T = decltype(t);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    if constexpr (std::is_same_v<T, float16>) {
      return int64_t{1} << 11;
    } else if constexpr (std::is_same_v<T, bfloat16>) {
      return int64_t{1} << 8;
    } else if constexpr (std::is_floating_point_v<T>) {
      return int64_t{1} << std::numeric_limits<T>::digits;
    } else if constexpr (sizeof(T) < sizeof(int64_t)) {
      return int64_t{std::numeric_limits<T>::max()} + 1;
    } else {
      return kMost;
    }
  });
}

Specs infer_multinomial(const MultinomialParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK_SHAPE(data.ndim() > 0 && data.back() != 0,
                 "sample_multinomial: data must have probabilities along the last axis, got shape ",
                 data);
  check_floating("sample_multinomial", in[0].dtype);
  MX_CHECK(data.back() <= counting_range(p.dtype), "sample_multinomial: dtype must represent all ",
           data.back(), " classes, got ", p.dtype);
  Shape out = data;
  out.erase(out.ndim() - 1);
  for (const int64_t dim : p.shape) out.push_back(dim);
  if (out.ndim() == 0) out.push_back(1);
  Specs specs = {{out, p.dtype}};
  if (p.get_prob) specs.push_back({out, in[0].dtype});
  return specs;
}

// For each draw k, adds the derivative d log(p[k]) / d p[k] = 1 / p[k].
std::vector<ValueRef> multinomial_gradient(GradBuilder& g) {
  if (!g.params<MultinomialParams>().get_prob || !g.has_output_grad(1)) return {{}};
  return {g.emit("_multinomial_backward", {g.output_grad(1), g.input(0), g.output(0)})};
}

Specs infer_shuffle(const NoParams&, std::span<const TensorSpec> in) {
  MX_CHECK_SHAPE(in[0].shape.ndim() > 0,
                 "shuffle: data must have at least 1 dimension, got shape ()");
  return {in[0]};
}

}  // namespace
}  // namespace random

static const Registration random_registration(Stage::kSchemas, [](OpRegistry& ops) {
  using namespace random;  // NOLINT: this folder's own names
  for_each_distribution([&](auto d) {
    using D = decltype(d);
    ops.add(draw_schema<D>());
    ops.add(like_schema<D>());
    ops.add(sample_schema<D>());
  });
  ops.add(OpBuilder<RandintParams>("random_randint")
              .inputs({})
              .alias({"_random_randint"})
              .doc("Draws integers from low up to but not including high, all with the same "
                   "probability.")
              .infer(infer_randint)
              .random(kCount)
              .zero_gradient()
              .types([](const RandintParams& p, KnownTypes, KnownTypes out) {
                if (!out[0]) out[0] = p.dtype.value_or(DType::kInt32);
              })
              .symbol({.shape_from_users = true}));
  ops.add(OpBuilder<MultinomialParams>("sample_multinomial")
              .alias({"_sample_multinomial"})
              .doc("Draws indices with the probabilities along data's last axis, which are first "
                   "divided by their sum. If probabilities are negative, NaN or infinite, or all "
                   "are 0, the next wait raises an error; on a GPU, the draws are then -1 and "
                   "their log-probabilities NaN.")
              .shapes("(classes,) or (N, classes) -> (*shape) or (N, *shape)")
              .output_count([](const MultinomialParams& p, int) { return p.get_prob ? 2 : 1; })
              .infer(infer_multinomial)
              .gradient(multinomial_gradient)
              .random(kCount)
              .symbol({.untied_inputs = {0}, .output_type = OutputType::kDtype}));
  ops.add(
      OpBuilder<NoParams>("_multinomial_backward")
          .internal()
          .inputs({"output_grad", "data", "draws"})
          .doc("Gradient of the draws' log-probabilities by the probabilities.")
          .infer([](const NoParams&, std::span<const TensorSpec> in) -> Specs { return {in[1]}; }));
  ops.add(OpBuilder<NoParams>("shuffle")
              .alias({"_shuffle"})
              .symbol({.file_name = "_shuffle"})
              .doc("Returns the entries of data along the first axis in random order.")
              .infer(infer_shuffle)
              .random([](const NoParams&, std::span<const TensorSpec> out) -> uint64_t {
                return counters_for(out[0].shape[0]);
              })
              .zero_gradient()
              .refine(refine_like_first));
});

}  // namespace mxlite
