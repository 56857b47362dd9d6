// Appended to sources that the fake NVRTC compiles: functions that run a kernel in the emulator.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cuda_runtime.h"
#include "tests/cpp/emulated_gpu/emulator.h"

namespace fake_rtc {

// The symbols are read now because the library's file is removed once it is loaded.
static const bool symbols_read = (emulation::read_symbols_around(&symbols_read), true);

template <class... P, size_t... I>
void call(void (*kernel)(P...), void** values, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cvref_t<P>*>(values[I])...);
}

// Returns 0 if the arguments have the sizes of the kernel's parameters. Runs the kernel if `values`
// is not null.
template <class... P>
int launch(const char* name, void (*kernel)(P...), const unsigned* grid, const unsigned* block,
           size_t shared, void** values, const size_t* bytes, size_t count) {
  constexpr size_t kBytes[] = {sizeof(P)..., 0};
  if (count != sizeof...(P)) return 1;
  for (size_t i = 0; i < count; ++i)
    if (bytes[i] != kBytes[i]) return 1;
  if (!values) return 0;
  emulation::name_next_grid(name);
  emulation::run_grid(dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), shared,
                      [&] { call(kernel, values, std::index_sequence_for<P...>{}); });
  return 0;
}

}  // namespace fake_rtc

#define FAKE_RTC_LAUNCHER(symbol, kernel)                                                 \
  extern "C" __attribute__((visibility("default"))) int fake_rtc_launch_##symbol(         \
      const unsigned* grid, const unsigned* block, size_t shared, void** values,          \
      const size_t* bytes, size_t count) {                                                \
    return fake_rtc::launch(#symbol, &kernel, grid, block, shared, values, bytes, count); \
  }
