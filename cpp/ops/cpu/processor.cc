#include "cpp/ops/cpu/processor.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace mxlite::cpu {
namespace {

// Returns whether oneDNN may use an instruction set, which includes support by the operating
// system. Instruction sets are bit masks: a larger set has the bits of all sets that it contains.
bool has(dnnl::cpu_isa isa) {
  static const int effective = static_cast<int>(dnnl::get_effective_cpu_isa());
  const int wanted = static_cast<int>(isa);
  return (effective & wanted) == wanted;
}

}  // namespace

bool has_avx512() { return has(dnnl::cpu_isa::avx512_core); }
bool has_vnni() { return has(dnnl::cpu_isa::avx512_core_vnni) || has(dnnl::cpu_isa::avx2_vnni); }
bool has_amx_bf16() { return has(dnnl::cpu_isa::avx512_core_amx); }

}  // namespace mxlite::cpu
