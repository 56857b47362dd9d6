// The matrix product of a FullyConnected layer, shared by its eager and planned kernels.
#pragma once
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/nn/fully_connected.h"

namespace mxlite::onednn {

// `weight` is (outputs, columns) with a plain layout or the layout `any`. Returns an empty
// descriptor if oneDNN does not support the product. For `any`, oneDNN chooses a layout that suits
// matmul, (columns, outputs), if as_matmul is true, else a layout that suits inner_product.
dnnl::primitive_desc_base product_desc(const RowsColumns& size, int64_t outputs, DType dtype,
                                       const Desc& bias, const Desc& weight,
                                       const dnnl::primitive_attr& attr, bool as_matmul = false);

}  // namespace mxlite::onednn
