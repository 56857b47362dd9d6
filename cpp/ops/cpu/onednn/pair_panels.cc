#include "cpp/ops/cpu/onednn/pair_panels.h"

namespace mxlite::onednn {

std::optional<PairLayout> pair_panels(const Desc& desc) {
  using dnnl::memory;
  if (desc.get_format_kind() != memory::format_kind::blocked || desc.get_ndims() != 2 ||
      desc.get_data_type() != memory::data_type::bf16 || desc.get_inner_nblks() != 3)
    return std::nullopt;
  const auto blocks = desc.get_inner_blks(), axes = desc.get_inner_idxs();
  if (axes[0] != axes[2] || axes[0] == axes[1] || blocks[0] * blocks[2] != cpu::PairPanels::kRows ||
      blocks[2] != 2 || blocks[1] % 16 != 0 || desc.get_submemory_offset() != 0)
    return std::nullopt;
  const auto rows = static_cast<size_t>(axes[0]), columns = static_cast<size_t>(axes[1]);
  const Dims size = desc.get_dims(), stride = desc.get_strides();
  return PairLayout{{size[rows], size[columns], blocks[1], stride[rows], stride[columns]},
                    rows == 1};
}

}  // namespace mxlite::onednn
