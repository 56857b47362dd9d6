// Descriptions of convolutions for oneDNN, shared by the eager and the planned kernels.
#pragma once
#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/nn/convolution.h"
#include "cpp/ops/nn/deconvolution.h"

namespace mxlite::onednn {

// Descriptors of the user's memory with dimensions in oneDNN's order: data (N, C, ...), weight
// ([groups,] O, I, ...).
struct ConvDescs {
  Desc data, weight, bias, output;  // the bias is a zero descriptor if there is none
  Dims stride, dilate, pad, pad_end;
  Desc any_data() const { return any_desc(data); }
  Desc any_weight() const { return any_desc(weight); }
  Desc any_output() const { return any_desc(output); }
};

ConvDescs describe(const ConvolutionParams& p, const Shape& data, const Shape& output, DType dtype,
                   bool bias);
// Describes a transposed convolution; data and output are those of the Deconvolution.
ConvDescs describe(const DeconvolutionParams& p, const Shape& data, const Shape& output,
                   DType dtype, bool bias);

// Returns the number of multiply-adds. `over` is the output of a convolution, or the data of a
// transposed convolution.
double count_products(const Desc& over, const Desc& weight);

// Returns an empty descriptor (get(true) == nullptr) if oneDNN only has its reference kernel.
dnnl::convolution_forward::primitive_desc forward_desc(const ConvDescs& d, const Desc& data,
                                                       const Desc& weight, const Desc& output,
                                                       bool training,
                                                       const dnnl::primitive_attr& attr);
dnnl::convolution_backward_data::primitive_desc backward_data_desc(const ConvDescs& d,
                                                                   const Desc& data,
                                                                   const Desc& weight,
                                                                   const Desc& output);
dnnl::convolution_backward_weights::primitive_desc backward_weight_desc(const ConvDescs& d,
                                                                        const Desc& data,
                                                                        const Desc& weight,
                                                                        const Desc& output);
dnnl::deconvolution_forward::primitive_desc deconvolution_desc(const ConvDescs& d, const Desc& data,
                                                               const Desc& weight,
                                                               const Desc& output,
                                                               const dnnl::primitive_attr& attr);

}  // namespace mxlite::onednn
