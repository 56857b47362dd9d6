// Passes that only training graphs need. See passes.h.
#pragma once
#include "cpp/graph/passes/passes.h"

namespace mxlite::graph {

Graph join_slices(const Graph& graph, const PassContext& context);
Graph add_embedding_rows(const Graph& graph, const PassContext& context);
Graph join_gelu(const Graph& graph, const PassContext& context);
Graph add_norm_gradients(const Graph& graph, const PassContext& context);

// The fused operators of these two passes have only first-order gradients.
Graph fuse_dropout(const Graph& graph, const PassContext& context);
Graph fuse_statistics(const Graph& graph, const PassContext& context);

}  // namespace mxlite::graph
