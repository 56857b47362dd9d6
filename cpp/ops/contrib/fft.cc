#include "cpp/ops/contrib/fft.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

constexpr const char* kForward = "_contrib_fft";
constexpr const char* kInverse = "_contrib_ifft";

void check_fft_data(const char* op, const TensorSpec& data) {
  MX_CHECK_DTYPE(is_floating(data.dtype), op,
                 ": data must be of dtype float16, bfloat16, float32 or float64, got ", data.dtype);
  MX_CHECK_SHAPE(data.shape.ndim() >= 1, op, ": data must have at least 1 dimension, got shape ()");
}

Specs infer_forward(const FftParams&, std::span<const TensorSpec> in) {
  check_fft_data(kForward, in[0]);
  Shape out = in[0].shape;
  out[out.ndim() - 1] = multiply_dims(out.back(), 2);
  return Specs{TensorSpec{out, in[0].dtype}};
}

Specs infer_inverse(const FftParams&, std::span<const TensorSpec> in) {
  check_fft_data(kInverse, in[0]);
  Shape out = in[0].shape;
  MX_CHECK_SHAPE(may_be_multiple(out.back(), 2), kInverse,
                 ": data must have an even last dimension (real and imaginary parts), got shape ",
                 out);
  out[out.ndim() - 1] = divide_dim(out.back(), 2);
  return Specs{TensorSpec{out, in[0].dtype}};
}

}  // namespace

static const Registration fft_registration(Stage::kSchemas, [](OpRegistry& ops) {
  ops.add(OpBuilder<FftParams>(kForward)
              .doc("Fourier transform along the last axis; the output holds real and imaginary "
                   "parts in turn.")
              .shapes("(..., length) -> (..., 2 * length)")
              .infer(infer_forward)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit(kInverse, {g.output_grad(0)}, g.params_ref())};
              })
              .amp(AmpClass::kFloat32));
  ops.add(OpBuilder<FftParams>(kInverse)
              .doc("Real part of the inverse Fourier transform along the last axis, not divided by "
                   "length; data holds real and imaginary parts in turn.")
              .shapes("(..., 2 * length) -> (..., length)")
              .infer(infer_inverse)
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit(kForward, {g.output_grad(0)}, g.params_ref())};
              })
              .amp(AmpClass::kFloat32));
});

}  // namespace mxlite
