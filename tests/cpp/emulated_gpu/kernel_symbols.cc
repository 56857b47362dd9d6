// Names of kernels from the symbol table of the library that holds them.
#include <unordered_map>

#include "cpp/core/cuda/kernel_name.h"
#include "cpp/core/launch_log.h"
#include "tests/cpp/emulated_gpu/emulator.h"
#include "tests/cpp/emulated_gpu/symbols.h"

namespace mxlite::cuda {
namespace {

const char* find_name(const void* function) {
  const auto& functions = emulation::symbols_around(function).functions;
  const auto found = functions.find(function);
  return found == functions.end() ? "a kernel"
                                  : intern_kernel_name(short_kernel_name(found->second.c_str()));
}

}  // namespace

const char* kernel_name(const void* function) {
  thread_local std::unordered_map<const void*, const char*> known;
  const auto [at, is_new] = known.emplace(function, nullptr);
  if (is_new) at->second = find_name(function);
  emulation::name_next_grid(at->second);
  return at->second;
}

}  // namespace mxlite::cuda
