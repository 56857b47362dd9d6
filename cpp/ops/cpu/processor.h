// Instruction sets among which our kernels choose at run time. ONEDNN_MAX_CPU_ISA limits them.
#pragma once

namespace mxlite::cpu {

bool has_avx512();  // AVX-512 F, VL, DQ and BW
bool has_vnni();    // adds products of 8-bit numbers to 32 bits, and not to 16 bits first
// Returns whether the processor has bfloat16 tiles (AMX) and the operating system lets this process
// use them.
bool has_amx_bf16();

}  // namespace mxlite::cpu
