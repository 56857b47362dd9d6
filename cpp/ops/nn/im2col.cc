#include "cpp/ops/nn/im2col.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {

Shape im2col_counts(const char* op, const Im2colParams& p, std::span<const int64_t> size) {
  const SpatialWindow w = p.window();
  Shape counts;
  for (int i = 0, at = 3 - p.kernel.ndim(); i < p.kernel.ndim(); ++i, ++at)
    counts.push_back(window_count(op, size[static_cast<size_t>(i)], w.kernel[at], w.stride[at],
                                  w.dilate[at], w.pad[at]));
  return counts;
}

namespace {

Specs infer_im2col(const Im2colParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_window("im2col", p.kernel, p.stride, p.dilate, p.pad);
  check_spatial_data("im2col", data, p.kernel, std::nullopt);
  const int64_t windows = count_elements(im2col_counts("im2col", p, data.span().subspan(2)));
  return Specs{
      TensorSpec{Shape{data[0], multiply_dims(data[1], p.kernel.size()), windows}, in[0].dtype}};
}

Specs infer_col2im(const Col2imParams& p, std::span<const TensorSpec> in) {
  const Shape& data = in[0].shape;
  check_window("col2im", p.kernel, p.stride, p.dilate, p.pad);
  MX_CHECK_SHAPE(p.output_size.ndim() == p.kernel.ndim(),
                 "col2im: output_size must have as many entries as kernel ", p.kernel, ", got ",
                 p.output_size);
  const int64_t windows = im2col_counts("col2im", p, p.output_size.span()).size();
  MX_CHECK_SHAPE(
      data.ndim() == 3 && may_be_multiple(data[1], p.kernel.size()) && may_equal(data[2], windows),
      "col2im: data must have shape (batch, multiple of ", p.kernel.size(), ", ", windows,
      "), got ", data);
  Shape out{data[0], divide_dim(data[1], p.kernel.size())};
  for (int64_t s : p.output_size) out.push_back(s);
  return Specs{TensorSpec{out, in[0].dtype}};
}

}  // namespace

static const Registration im2col_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<Im2colParams>("im2col")
              .doc("Returns the windows of an image as columns of a matrix.")
              .shapes("(N, C, [D, H,] W) -> (N, C * product of kernel, windows)")
              .infer(infer_im2col)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                auto params = std::make_shared<Col2imParams>();
                static_cast<Im2colParams&>(*params) = g.params<Im2colParams>();
                params->output_size = Shape(g.input_spec(0).shape.span().subspan(2));
                return {g.emit("col2im", {g.output_grad(0)}, ParamsRef(std::move(params)))};
              }));
  ops.add(OpBuilder<Col2imParams>("col2im")
              .doc("Reverses im2col: writes the columns back to an image, where overlapping "
                   "windows are added.")
              .shapes("(N, C * product of kernel, windows) -> (N, C, *output_size)")
              .infer(infer_col2im)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                const Im2colParams& p = g.params<Col2imParams>();
                return {g.emit("im2col", {g.output_grad(0)}, std::make_shared<Im2colParams>(p))};
              }));
});

}  // namespace mxlite
