// Tests that planned pooling, element-wise operators and concatenation give the results of the
// native kernels.
#include "tests/cpp/planned_call.h"

namespace mxlite::test {
namespace {

TEST(PlannedKernel, Pooling) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const char* type : {"max", "avg"}) {
        for (const int64_t channels : {16, 19, 64})
          PlannedCall{{"Pooling",
                       {{"kernel", Shape{3, 3}},
                        {"stride", Shape{2, 2}},
                        {"pad", Shape{1, 1}},
                        {"pool_type", std::string(type)}},
                       tensors({{2, channels, 14, 15}}, dtype)},
                      start}
              .expect_equal(type);
        PlannedCall{{"Pooling",
                     {{"global_pool", true}, {"pool_type", std::string(type)}},
                     tensors({{2, 40, 7, 9}}, dtype)},
                    start}
            .expect_equal("global");
      }
}

TEST(PlannedKernel, PoolingGradients) {
  for (const DType dtype : kTypes)
    for (const Start start : kStarts)
      for (const char* type : {"max", "avg"})
        for (const int64_t channels : {19, 48}) {
          const Shape data{2, channels, 14, 15}, output{2, channels, 7, 8};
          std::vector<Tensor> in = tensors({output}, dtype);
          if (std::string_view(type) == "max") in.push_back(random_tensor({data, dtype}, 9));
          PlannedCall call{{"_pooling_backward",
                            {{"kernel", Shape{3, 3}},
                             {"stride", Shape{2, 2}},
                             {"pad", Shape{1, 1}},
                             {"pool_type", std::string(type)},
                             {"data_shape", data}},
                            in},
                           start,
                           true};
          call.expect_equal(type);
          if (channels == 48) call.expect_layout_kept(0);
        }
}

TEST(PlannedKernel, Lrn) {
  for (const Start start : kStarts)
    PlannedCall{{"LRN", {{"nsize", int64_t{5}}}, tensors({{2, 23, 9, 11}}, DType::kFloat32)}, start}
        .expect_equal("lrn");
}

TEST(PlannedKernel, ElementWise) {
  const Shape full{2, 19, 5, 6};
  for (const DType dtype : kTypes)
    for (const Start start : {Start::kChannelsLast, Start::kBlocked}) {
      const auto expect = [&](const char* op, const Attrs& attrs,
                              const std::vector<Shape>& shapes) {
        PlannedCall call{{op, attrs, tensors(shapes, dtype)}, start};
        call.expect_equal(op);
      };
      expect("Activation", {{"act_type", std::string("tanh")}}, {full});
      expect("LeakyReLU", {{"act_type", std::string("gelu")}}, {full});
      expect("elemwise_add", {}, {full, full});
      expect("broadcast_mul", {}, {full, {1, 19, 1, 1}});
      expect("broadcast_sub", {}, {full, {1, 1, 1, 1}});
      expect("add_n", {}, {full, full, full});
      // Padded channels need operators of oneDNN with f(0) = 0. Its relu loses NaN.
      if (start == Start::kBlocked) continue;
      expect("relu", {}, {full});
      expect("exp", {}, {full});
      expect("Activation", {{"act_type", std::string("softsign")}}, {full});
      expect("_plus_scalar", {{"scalar", 2.0}}, {full});
    }
}

TEST(PlannedKernel, PaddedMemoryIsNotTouchedByPlainKernels) {
  std::vector<Layout> layouts;
  const PlannedCall call{{"exp", {}, tensors({{2, 19, 5, 6}}, DType::kFloat32)}, Start::kBlocked};
  EXPECT_FALSE(call.plan(layouts).has_value());
}

TEST(PlannedKernel, Concat) {
  for (const DType dtype : kTypes)
    for (const Start start : {Start::kChannelsLast, Start::kBlocked})
      for (const int axis : {0, 1, 2, 3})
        for (const int64_t channels : {19, 48}) {
          Shape a{2, channels, 5, 6}, b = a, c = a;
          b[axis] = channels == 19 ? 3 : 16;
          c[axis] = channels == 19 ? 20 : 64;
          PlannedCall call{{"Concat", {{"dim", int64_t{axis}}}, tensors({a, b, c}, dtype)}, start};
          call.expect_equal(str("axis ", axis));
          if (channels == 48) call.expect_layout_kept(0);
        }
}

TEST(PlannedKernel, SliceAxis) {
  for (const DType dtype : kTypes)
    for (const Start start : {Start::kChannelsLast, Start::kBlocked})
      for (const int axis : {0, 1, 2, 3}) {
        PlannedCall call{
            {"slice_axis",
             {{"axis", int64_t{axis - 4}}, {"begin", int64_t{16}}, {"end", int64_t{-16}}},
             tensors({{48, 64, 40, 36}}, dtype)},
            start};
        call.expect_equal(str("axis ", axis));
        call.expect_layout_kept(0);
      }
}

TEST(PlannedKernel, SliceAxisInsideABlockIsLeftToThePlainKernel) {
  std::vector<Layout> layouts;
  for (const auto& [begin, end] : {std::pair{4, 20}, {0, 44}}) {
    const PlannedCall call{
        {"slice_axis",
         {{"axis", int64_t{1}}, {"begin", int64_t{begin}}, {"end", int64_t{end}}},
         tensors({{2, 48, 5, 6}}, DType::kFloat32)},
        Start::kBlocked};
    EXPECT_FALSE(call.plan(layouts).has_value());
  }
}

TEST(Layout, OnePixelIsPlainInEveryLayout) {
  for (const int64_t channels : {16, 48})
    for (const Start start : kStarts)
      EXPECT_TRUE(layout_for({{3, channels, 1, 1}, DType::kFloat32}, start).is_plain());
  EXPECT_FALSE(layout_for({{3, 17, 1, 1}, DType::kFloat32}, Start::kBlocked).is_plain());
  const auto equal = [](int64_t channels) {
    const TensorSpec spec{{3, channels, 4, 4}, DType::kFloat32};
    return same_layout(layout_for(spec, Start::kBlocked), layout_for(spec, Start::kChannelsLast));
  };
  EXPECT_TRUE(equal(onednn::channel_block()));
  EXPECT_FALSE(equal(2 * onednn::channel_block()));
}

}  // namespace
}  // namespace mxlite::test
