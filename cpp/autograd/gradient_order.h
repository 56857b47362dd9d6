// The order in which backward computes gradients. Code that sends gradients during backward uses
// this order.
#pragma once
#include <cstdint>
#include <span>

#include "cpp/ndarray/ndarray.h"

namespace mxlite::autograd {

// Sets for the whole process whether backward stores the order. The default is false. Switching it
// off deletes the stored order.
void set_notes_order(bool on);
bool notes_order();

// Stores that backward has computed these gradients in this order.
void note_gradients(std::span<const NDArrayRef> gradients);

// Returns a number that is higher for gradients that were computed later, or 0 if no number is
// stored. The number is only a hint: an array may get the number of a freed array that had the same
// address.
uint64_t gradient_position(const NDArray& gradient);

}  // namespace mxlite::autograd
