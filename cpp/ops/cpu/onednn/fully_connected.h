// The matrix product of a FullyConnected layer, shared by its eager and planned kernels.
#pragma once
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/nn/fully_connected.h"

namespace mxlite::onednn {

// `weight` is (outputs, columns), plain or any. Returns an empty descriptor if oneDNN does not
// support the product. as_matmul: weights of layout `any` get a layout of matmul (columns,
// outputs), not of inner_product.
dnnl::primitive_desc_base product_desc(const RowsColumns& size, int64_t outputs, DType dtype,
                                       const Desc& bias, const Desc& weight,
                                       const dnnl::primitive_attr& attr, bool as_matmul = false);

}  // namespace mxlite::onednn
