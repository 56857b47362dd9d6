// Descriptors of open files and sockets, of which a process may have a limited number.
#pragma once
#include <cstdint>
#include <string>

namespace mxlite {

// Descriptors that a process of a job needs beside those of its connections.
inline constexpr int kOwnDescriptors = 16;

// Makes room for `needed` more descriptors, and for `spare` further ones as far as the hard limit
// allows: raises the soft limit of this process, which its children inherit. Throws a communicator
// error that begins with `who` and has the numbers if the hard limit is too low.
void reserve_descriptors(const std::string& who, int64_t needed, int64_t spare);

// Returns whether `error` (errno) means that this process (EMFILE) or its host has no descriptor or
// no memory for a socket left.
bool is_descriptor_shortage(int error);
// Returns the text of such an error, with the numbers of this process and what to do.
std::string descriptor_shortage_text(int error);

}  // namespace mxlite
