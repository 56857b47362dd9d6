#include "cpp/ops/tensor/depth_to_space.h"

#include <vector>

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

void check_input(const char* op, const Shape& shape) {
  MX_CHECK_SHAPE(shape.ndim() == 4, op,
                 ": data must have shape (batch, channels, height, width), got ", shape);
}

Specs infer_depth_to_space(const BlockSizeParams& p, std::span<const TensorSpec> in) {
  const Shape& s = in[0].shape;
  check_input("depth_to_space", s);
  const int64_t b = p.block_size;
  MX_CHECK_SHAPE(
      may_be_multiple(s[1], b * b),
      "depth_to_space: the number of channels must be a multiple of block_size squared, ", b * b,
      ", got ", s[1], " in data of shape ", s);
  return {{{s[0], divide_dim(s[1], b * b), multiply_dims(s[2], b), multiply_dims(s[3], b)},
           in[0].dtype}};
}

Specs infer_space_to_depth(const BlockSizeParams& p, std::span<const TensorSpec> in) {
  const Shape& s = in[0].shape;
  check_input("space_to_depth", s);
  const int64_t b = p.block_size;
  MX_CHECK_SHAPE(may_be_multiple(s[2], b) && may_be_multiple(s[3], b),
                 "space_to_depth: height and width must be multiples of block_size ", b,
                 ", got data of shape ", s);
  return {
      {{s[0], multiply_dims(s[1], b * b), divide_dim(s[2], b), divide_dim(s[3], b)}, in[0].dtype}};
}

std::vector<ValueRef> grad_depth_to_space(GradBuilder& g) {
  return {g.emit("space_to_depth", {g.output_grad(0)}, g.params_ref())};
}

std::vector<ValueRef> grad_space_to_depth(GradBuilder& g) {
  return {g.emit("depth_to_space", {g.output_grad(0)}, g.params_ref())};
}

}  // namespace

static const Registration depth_to_space_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<BlockSizeParams>("depth_to_space")
              .doc("Rearranges channels to blocks of height and width.")
              .shapes("(N, C, H, W) -> (N, C / block^2, H * block, W * block)")
              .infer(infer_depth_to_space)
              .gradient(grad_depth_to_space));
  ops.add(OpBuilder<BlockSizeParams>("space_to_depth")
              .doc("Rearranges blocks of height and width to channels.")
              .shapes("(N, C, H, W) -> (N, C * block^2, H / block, W / block)")
              .infer(infer_space_to_depth)
              .gradient(grad_space_to_depth));
});

}  // namespace mxlite
