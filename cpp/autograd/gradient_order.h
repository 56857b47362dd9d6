// The order in which backward makes gradients, for those who send them while backward runs.
#pragma once
#include <cstdint>
#include <span>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::autograd {

// Whether backward notes the order; process-wide, false at first. Switching it off forgets all.
void set_notes_order(bool on);
bool notes_order();

// Notes that backward has made these gradients, each after the one before it.
void note_gradients(std::span<const NDArrayRef> gradients);

// Returns a number that is higher the later backward made the gradient; 0 if backward has noted
// none. An array may get the number of another one that was freed, so this is a hint only.
uint64_t gradient_position(const NDArray& gradient);

}  // namespace mxlite::autograd
