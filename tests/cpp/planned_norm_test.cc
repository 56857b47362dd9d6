// Tests that planned BatchNorm, alone and with operators fused after it, gives the results of the
// native kernels.
#include "tests/cpp/planned_call.h"

namespace mxlite::test {
namespace {

std::vector<Tensor> batch_norm_inputs(const Shape& data, DType dtype) {
  const Shape c{data[1]};
  const DType f32 = DType::kFloat32;
  return {random_tensor({data, dtype}, 1), random_tensor({c, f32}, 2, 0.5, 1.5),
          random_tensor({c, f32}, 3), random_tensor({c, f32}, 4),
          random_tensor({c, f32}, 5, 0.5, 1.5)};
}

// The channels do or do not fill whole registers, and some shapes have more rows than one piece.
const Shape kNormShapes[] = {{3, 32, 6, 7}, {3, 19, 6, 7}, {2, 48, 23, 29}};

TEST(PlannedKernel, BatchNorm) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const Shape& shape : kNormShapes)
        for (const bool training : {false, true})
          for (const bool fix_gamma : {false, true}) {
            const auto fresh = [&] { return batch_norm_inputs(shape, dtype); };
            const Attrs attrs = {{"fix_gamma", fix_gamma}, {"eps", 1e-3}};
            PlannedCall native{{"BatchNorm", attrs, fresh()}, start, training};
            PlannedCall planned{{"BatchNorm", attrs, fresh()}, start, training};
            if (!onednn::computes_in(dtype)) continue;
            const auto got = planned.run_planned();
            // There is no plan here, because the native kernel adds up in doubles and is as fast.
            ASSERT_EQ(got.has_value(), !(training && start == Start::kPlain));
            if (!got) continue;
            const auto expected = native.run_native();
            for (size_t i = 0; i < 3; ++i)
              EXPECT_LE(relative_error((*got)[i], expected[i]), tolerance(dtype)) << i;
            for (size_t i = 3; i < 5; ++i)  // running statistics
              EXPECT_LE(relative_error(planned.call.inputs[i], native.call.inputs[i]), 1e-4) << i;
            if (!training) {
              PlannedCall fused{
                  {"BatchNorm", attrs, fresh()}, start, false, {}, {activation("relu", {})}};
              fused.expect_equal("relu");
            }
          }
}

TEST(PlannedKernel, BatchNormGradients) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const bool batch_stats : {false, true})
        for (const bool fix_gamma : {false, true}) {
          const Shape data{3, 19, 6, 7};
          const auto in = batch_norm_inputs(data, dtype);
          PlannedCall call{{"_batch_norm_backward",
                            {{"fix_gamma", fix_gamma}, {"batch_stats", batch_stats}},
                            {random_tensor({data, dtype}, 8), in[0], in[1], in[3], in[4]}},
                           start,
                           true};
          if (batch_stats && start == Start::kPlain)
            EXPECT_FALSE(call.run_planned().has_value());
          else
            call.expect_equal(str("batch_stats ", batch_stats), 5);
        }
}

bool takes_norm(const Shape& shape, Start start) {
  return start == Start::kChannelsLast || (start == Start::kBlocked && onednn::fills_blocks(shape));
}

TEST(PlannedKernel, BatchNormWithAdditionAndRelu) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const Shape& shape : kNormShapes)
        for (const char* op : {"BatchNorm", "_batch_norm_relu", "_batch_norm_add_relu"})
          for (const bool fix_gamma : {false, true})
            for (const bool global : {false, true}) {
              if (!takes_norm(shape, start) || !onednn::computes_in(dtype)) continue;
              const auto fresh = [&] {
                auto in = batch_norm_inputs(shape, dtype);
                // The mean is far from zero, so that sums of squares alone would cancel.
                for (int64_t i = 0; i < shape.size(); ++i) in[0].set(i, in[0].at(i) + 40);
                if (std::string(op) == "_batch_norm_add_relu")
                  in.push_back(random_tensor({shape, dtype}, 12));
                return in;
              };
              const Attrs attrs = {{"fix_gamma", fix_gamma}, {"use_global_stats", global}};
              PlannedCall native{{op, attrs, fresh()}, start, true};
              PlannedCall planned{{op, attrs, fresh()}, start, true};
              const auto expected = native.run_native();
              const auto got = planned.run_planned();
              ASSERT_TRUE(got.has_value()) << op;
              for (size_t i = 0; i < 3; ++i)
                EXPECT_LE(relative_error((*got)[i], expected[i]), 5 * tolerance(dtype))
                    << op << " output " << i << ", " << shape;
              for (size_t i = 3; i < 5; ++i)  // running statistics
                EXPECT_LE(relative_error(planned.call.inputs[i], native.call.inputs[i]), 1e-5)
                    << op << " " << i;
            }
}

TEST(PlannedKernel, BatchNormGradientsThroughAdditionAndRelu) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const Shape& shape : kNormShapes)
        for (const bool batch_stats : {false, true})
          for (const bool fix_gamma : {false, true}) {
            if (!takes_norm(shape, start) || !onednn::computes_in(dtype)) continue;
            const auto in = batch_norm_inputs(shape, dtype);
            const Tensor grad = random_tensor({shape, dtype}, 8),
                         output = random_tensor({shape, dtype}, 9);
            const Attrs attrs = {{"fix_gamma", fix_gamma}, {"batch_stats", batch_stats}};
            const std::string what = str("batch_stats ", batch_stats);
            PlannedCall{
                {"_batch_norm_backward", attrs, {grad, in[0], in[1], in[3], in[4]}}, start, true}
                .expect_equal(what, 5);
            PlannedCall{
                {"_batch_norm_relu_backward", attrs, {grad, in[0], in[1], in[2], in[3], in[4]}},
                start,
                true}
                .expect_equal(what, 5);
            PlannedCall{{"_batch_norm_add_relu_backward",
                         attrs,
                         {grad, output, in[0], in[1], in[3], in[4]}},
                        start,
                        true}
                .expect_equal(what, 5);
          }
}

}  // namespace
}  // namespace mxlite::test
