// The order in which backward computes gradients, for code that sends them while backward runs.
#pragma once
#include <cstdint>
#include <span>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::autograd {

// Sets whether backward notes the order. Process-wide; off by default. Off also clears the notes.
void set_notes_order(bool on);
bool notes_order();

// Notes that backward has computed these gradients in this order.
void note_gradients(std::span<const NDArrayRef> gradients);

// Returns a number that is higher for gradients that were computed later; 0 if none is noted. Only
// a hint: an array may get the number of a freed array that had its address.
uint64_t gradient_position(const NDArray& gradient);

}  // namespace mxlite::autograd
