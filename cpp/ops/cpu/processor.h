// Instruction sets among which our kernels choose at run time. ONEDNN_MAX_CPU_ISA limits them.
#pragma once

namespace mxlite::cpu {

bool has_avx512();  // AVX-512 F, VL, DQ and BW
bool has_vnni();    // adds products of 8-bit numbers in 32 bits, without a step in 16 bits
// Returns whether the processor has bfloat16 tiles (AMX) and the operating system lets this process
// use them.
bool has_amx_bf16();

}  // namespace mxlite::cpu
