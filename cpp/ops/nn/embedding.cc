#include "cpp/ops/nn/embedding.h"

#include "cpp/ops/dimensions.h"
#include "cpp/ops/nn/layer_rules.h"
#include "cpp/ops/registration.h"

namespace mxlite {
namespace {

Specs infer_embedding_specs(const EmbeddingParams& p, std::span<const TensorSpec> in) {
  MX_CHECK_DTYPE(in[0].dtype != DType::kBool,
                 "Embedding: data must have a numeric dtype, got bool");
  MX_CHECK_SHAPE(may_equal(in[1].shape, Shape{p.input_dim, p.output_dim}),
                 "Embedding: weight must have shape (input_dim, output_dim) = ",
                 Shape{p.input_dim, p.output_dim}, ", got ", in[1].shape);
  Shape out = in[0].shape;
  out.push_back(p.output_dim);
  return Specs{TensorSpec{out, in[1].dtype}};
}

std::vector<ValueRef> embedding_gradient(GradBuilder& g) {
  const auto& p = g.params<EmbeddingParams>();
  if (!p.sparse_grad)
    return {{}, g.emit("_embedding_backward", {g.output_grad(0), g.input(0)}, g.params_ref())};
  const Shape rows{g.input_spec(0).shape.size(), p.output_dim};
  const ValueRef indices = g.emit("_embedding_rows", {g.input(0)}, {{"input_dim", p.input_dim}});
  return {{},
          g.emit("_row_sparse_to_dense", {g.reshape(g.output_grad(0), rows), indices},
                 {{"shape", Shape{p.input_dim, p.output_dim}}})};
}

}  // namespace

static const Registration embedding_registration(Stage::kSchemas, [](OpRegistry& ops) {
  StorageTraits storage{.looked_up = 1, .row_gradient = [](const void* p) {
                          return static_cast<const EmbeddingParams*>(p)->sparse_grad;
                        }};
  storage.aliases["_contrib_SparseEmbedding"] = AliasStorage::kRowGradient;
  ops.add(
      OpBuilder<EmbeddingParams>("Embedding")
          .doc("Looks up the rows of weight that the indices in data select; indices outside of "
               "the table are clipped to its ends.")
          .shapes("data: any shape, weight: (input_dim, output_dim) -> (*data.shape, output_dim)")
          .alias({"_contrib_SparseEmbedding"})
          .inputs({"data", "weight"})
          .infer(infer_embedding_specs)
          .complete([](const EmbeddingParams& p, std::span<TensorSpec> in) {
            complete_shape(in[1], Shape{p.input_dim, p.output_dim});
          })
          .gradient(embedding_gradient)
          .storage(std::move(storage))
          .keeps_alias("_contrib_SparseEmbedding")
          .symbol({.completes_without_data = true, .untied_inputs = {0}})
          .types([](const EmbeddingParams& p, KnownTypes in, KnownTypes) {
            if (in.size() > 1 && !in[1]) in[1] = p.dtype;
          }));
  ops.add(OpBuilder<EmbeddingParams>("_embedding_backward")
              .internal()
              .doc("Gradient of Embedding for weight.")
              .inputs({"output_grad", "data"})
              .infer([](const EmbeddingParams& p, std::span<const TensorSpec> in) {
                return Specs{TensorSpec{Shape{p.input_dim, p.output_dim}, in[0].dtype}};
              })
              .gradient([](GradBuilder& g) -> std::vector<ValueRef> {
                return {g.emit("Embedding", {g.input(1), g.output_grad(0)}, g.params_ref()), {}};
              }));
  ops.add(OpBuilder<EmbeddingParams>("_embedding_backward_add")
              .internal()
              .doc("total plus the gradient of Embedding for weight.")
              .inputs({"total", "output_grad", "data"})
              .infer(same_as_input<0, EmbeddingParams>)
              .inplace(0, 0));
});

}  // namespace mxlite
