#include "cpp/ndarray/transfer_memory.h"

#include "cpp/core/accelerator.h"

namespace mxlite {

NDArrayRef empty_for_transfer(const TensorSpec& spec) {
  Accelerator* const gpus = accelerator_in_use();
  const size_t bytes = spec.bytes();
  if (!gpus || bytes == 0) return NDArray::empty(spec, Device{});
  Allocator& pinned = gpus->pinned();
  const Block block = pinned.allocate(bytes);
  return NDArray::from_storage(
      Storage::wrap(Device{}, block.data, bytes, [&pinned, block] { pinned.free(block); }), spec);
}

}  // namespace mxlite
