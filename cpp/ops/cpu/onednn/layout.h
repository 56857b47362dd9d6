// Converts between the Layout of graphs and oneDNN's descriptors.
#pragma once
#include <vector>

#include "cpp/ops/cpu/onednn/engine.h"
#include "cpp/ops/planned_kernel.h"

namespace mxlite::onednn {

// The object that Layout::desc points to.
struct MemoryFormat {
  // Dimensions in the user's order. A packed weight may have its first dimension split into groups.
  Desc desc;
  // If true, the memory holds the output of winograd_transform, and desc describes its input.
  bool winograd = false;
  // If true, the memory holds int8 weights divided by 2. See Note [Halved weights].
  bool halved = false;
};
const MemoryFormat& format_of(const Layout& layout);  // requires a layout that is not plain

// Returns the descriptor of a tensor with this layout.
Desc desc_of(const Layout& layout, const TensorSpec& spec);
// Returns a plain layout if the memory equals plain memory, such as channels-last 1 x 1 pixels.
Layout make_layout(const Desc& desc);
// Returns the layout of transformed weights (filters, channels, k, k).
Layout winograd_layout(const Shape& weight);
Desc winograd_weight_desc(const Shape& weight);   // input of winograd_transform
Desc winograd_rotated_desc(const Shape& weight);  // for the gradient with respect to data
bool same_memory(const Desc& a, const Desc& b);

// Convert data of operators with a channels-last parameter from the user's order of dimensions, (N,
// spatial, C), to oneDNN's order, (N, C, spatial), and back.
Desc channels_to_second(const Desc& user);
Desc channels_to_last(const Desc& own);

// Dense channels-last memory for a shape (N, C, spatial).
Desc channels_last_of(const Shape& shape, DType dtype);
bool is_channels_last(const Desc& desc);
// Returns the channels per block in oneDNN's blocked formats and in our own kernels: 16 with
// AVX-512, else 8.
int64_t channel_block();
// Returns whether memory of shape (N, C, H, W) in blocks of channels has no padding.
inline bool fills_blocks(const Shape& shape) {
  return shape.ndim() == 4 && shape[1] % channel_block() == 0;
}
Desc blocked_of(const Shape& shape, DType dtype = DType::kFloat32);
// The layout of data for our own kernels: the producer's layout if it has blocks of channels, else
// channels-last.
struct PixelLayout {
  bool blocked = false;
  Layout layout;
};
PixelLayout pixel_layout(const Layout& given, const Shape& shape);

// Implementations of the hooks for set_layout_backend.
bool same_format(const Layout& a, const Layout& b);
Plan plan_format_reorder(const TensorSpec& from_spec, const Layout& from, const TensorSpec& to_spec,
                         const Layout& to);

// Plan.run for one primitive. Operand i (inputs, then outputs) becomes oneDNN's argument which[i];
// 0 omits it.
struct Binding {
  std::vector<int> inputs, outputs;
};
void bind_run(Plan& plan, const dnnl::primitive_desc_base& pd, Binding binding);

}  // namespace mxlite::onednn
