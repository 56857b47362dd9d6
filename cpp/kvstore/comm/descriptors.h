// Limits on the descriptors of open files and sockets of a process.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

// Number of descriptors that a process of a job needs in addition to those of its connections.
inline constexpr int kOwnDescriptors = 16;

// Raises the soft limit of this process and its future children, so that it can open `needed` more
// descriptors. If the hard limit allows it, the process can open `spare` additional descriptors. If
// the hard limit is too low for `needed`, throws a communicator error that begins with `who` and
// states the numbers.
void reserve_descriptors(const std::string& who, int64_t needed, int64_t spare);

// Returns whether `error` (an errno) means that this process (EMFILE) or its host has no
// descriptors left or has no memory for another socket.
bool is_descriptor_shortage(int error);
// Returns an error text about missing descriptors. It contains the limits of this process and a
// remedy.
std::string descriptor_shortage_text(int error);

}  // namespace mxlite
