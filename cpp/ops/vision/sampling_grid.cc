#include "cpp/ops/vision/sampling_grid.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kSampler = "BilinearSampler";
constexpr const char* kGenerator = "GridGenerator";
constexpr const char* kTransformer = "SpatialTransformer";

void check_sampled_image(const char* op, const TensorSpec& data) {
  MX_CHECK_DTYPE(is_floating(data.dtype), op,
                 ": data must have dtype float16, bfloat16, float32 or float64, got ", data.dtype);
  MX_CHECK_SHAPE(data.shape.ndim() == 4 && data.shape[2] != 0 && data.shape[3] != 0, op,
                 ": data must have 4 dimensions (batch, channels, height, width), got shape ",
                 data.shape);
}

void check_dtype(const char* op, const char* name, const TensorSpec& spec, DType data) {
  MX_CHECK_DTYPE(spec.dtype == data, op, ": ", name, " must have data's dtype ", data, ", got ",
                 spec.dtype);
}

void check_target(const char* op, const Shape& target) {
  MX_CHECK(target.ndim() == 2 && target[0] > 0 && target[1] > 0, op,
           ": target_shape must be two positive numbers, got ", target);
}

void check_affine(const char* op, const char* name, const Shape& matrix) {
  MX_CHECK_SHAPE(matrix.ndim() == 2 && may_equal(matrix[1], 6), op, ": ", name,
                 " must have shape (batch, 6) with transform_type affine, got ", matrix);
}

Specs infer_sampler(const BilinearSamplerParams&, std::span<const TensorSpec> in) {
  check_sampled_image(kSampler, in[0]);
  check_dtype(kSampler, "grid", in[1], in[0].dtype);
  const Shape &data = in[0].shape, &grid = in[1].shape;
  MX_CHECK_SHAPE(grid.ndim() == 4 && may_equal(grid[0], data[0]) && may_equal(grid[1], 2), kSampler,
                 ": grid must have shape (", data[0], ", 2, height, width), got ", grid);
  const Shape out{merged(data[0], grid[0]), data[1], grid[2], grid[3]};
  return Specs{TensorSpec{out, in[0].dtype}};
}

Specs infer_generator(const GridGeneratorParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  MX_CHECK_DTYPE(is_floating(in[0].dtype), kGenerator,
                 ": data must have dtype float16, bfloat16, float32 or float64, got ", in[0].dtype);
  if (p.transform_type == GridTransform::kAffine) {
    check_affine(kGenerator, "data", data);
    check_target(kGenerator, p.target_shape);
    return Specs{TensorSpec{Shape{data[0], 2, p.target_shape[0], p.target_shape[1]}, in[0].dtype}};
  }
  MX_CHECK_SHAPE(data.ndim() == 4 && may_equal(data[1], 2), kGenerator,
                 ": data must have shape (batch, 2, height, width) with transform_type warp, got ",
                 data);
  return Specs{in[0]};
}

Specs infer_transformer(const SpatialTransformerParams& p, std::span<const TensorSpec> in) {
  check_sampled_image(kTransformer, in[0]);
  check_dtype(kTransformer, "loc", in[1], in[0].dtype);
  check_affine(kTransformer, "loc", in[1].shape);
  check_target(kTransformer, p.target_shape);
  const Shape& data = in[0].shape;
  MX_CHECK_SHAPE(may_equal(in[1].shape[0], data[0]), kTransformer, ": loc must have shape ",
                 Shape{data[0], 6}, " for data of shape ", data, ", got ", in[1].shape);
  const Shape out{merged(data[0], in[1].shape[0]), data[1], p.target_shape[0], p.target_shape[1]};
  return Specs{TensorSpec{out, in[0].dtype}};
}

std::vector<ValueRef> gradient_sampler(GradBuilder& g) {
  return g.emit_all("_bilinear_sampler_backward", {g.output_grad(0), g.input(0), g.input(1)});
}

ValueRef grid_backward(GradBuilder& g, ValueRef grid_grad, const char* type, const Shape& target) {
  return g.emit("_grid_generator_backward", {grid_grad},
                {{"transform_type", std::string(type)}, {"target_shape", target}});
}

std::vector<ValueRef> gradient_generator(GradBuilder& g) {
  const auto& p = g.params<GridGeneratorParams>();
  const char* type = p.transform_type == GridTransform::kAffine ? "affine" : "warp";
  return {grid_backward(g, g.output_grad(0), type, p.target_shape)};
}

std::vector<ValueRef> gradient_transformer(GradBuilder& g) {
  const Shape& target = g.params<SpatialTransformerParams>().target_shape;
  const ValueRef grid =
      g.emit(kGenerator, {g.input(1)},
             {{"transform_type", std::string("affine")}, {"target_shape", target}});
  const auto both = g.emit_all("_bilinear_sampler_backward", {g.output_grad(0), g.input(0), grid});
  return {both[0], grid_backward(g, both[1], "affine", target)};
}

}  // namespace

static const Registration sampling_grid_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<BilinearSamplerParams>(kSampler)
              .doc("Samples images at the points of grid by bilinear interpolation. grid holds x, "
                   "then y; -1 and 1 are the centers of the first and last pixels. Pixels outside "
                   "of the image are 0.")
              .shapes("data: (N, C, H, W), grid: (N, 2, oH, oW) -> (N, C, oH, oW)")
              .inputs({"data", "grid"})
              .infer(infer_sampler)
              .gradient(gradient_sampler)
              .symbol({.output_names = {"output"}})
              .total_outputs(2));
  ops.add(OpBuilder<NoParams>("_bilinear_sampler_backward")
              .internal()
              .doc("Gradients of BilinearSampler for data and grid.")
              .inputs({"output_grad", "data", "grid"})
              .outputs(2)
              .infer([](const NoParams&, std::span<const TensorSpec> in) {
                return Specs{in[1], in[2]};
              }));
  ops.add(OpBuilder<GridGeneratorParams>(kGenerator)
              .doc("Computes a grid for BilinearSampler from affine transformations or from a flow "
                   "in pixels.")
              .shapes("affine: (N, 6), warp: (N, 2, H, W) -> (N, 2, H, W)")
              .infer(infer_generator)
              .gradient(gradient_generator)
              .symbol({.output_names = {"output"}, .names_single_input = true})
              .total_outputs(2));
  ops.add(OpBuilder<GridGeneratorParams>("_grid_generator_backward")
              .internal()
              .doc("Gradient of GridGenerator.")
              .inputs({"output_grad"})
              .infer([](const GridGeneratorParams& p, std::span<const TensorSpec> in) {
                const Shape& grid = in[0].shape;
                const bool affine = p.transform_type == GridTransform::kAffine;
                return Specs{TensorSpec{affine ? Shape{grid[0], 6} : grid, in[0].dtype}};
              }));
  ops.add(OpBuilder<SpatialTransformerParams>(kTransformer)
              .doc("Transforms each image by its own affine transformation with bilinear "
                   "interpolation; loc holds 2 x 3 matrices, row by row, which map output "
                   "coordinates to input coordinates.")
              .shapes("data: (N, C, H, W), loc: (N, 6) -> (N, C, *target_shape)")
              .inputs({"data", "loc"})
              .infer(infer_transformer)
              .gradient(gradient_transformer)
              .symbol({.output_names = {"output"}})
              .total_outputs(3));
});

}  // namespace mxlite
