// A file that is whole or not there: written beside its place, synced, renamed; a checksum at its
// end.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mxlite::server {

// Names the bytes of a file in errors about its content.
inline constexpr const char* kSnapshot = "parameter server: a snapshot";

void write_snapshot(const std::string& path, std::span<const std::span<const std::byte>> parts);
// The parts one after the other. Record error for a damaged file.
std::vector<std::byte> read_snapshot(const std::string& path);

std::vector<std::string> files_in(const std::string& folder, const std::string& suffix);
void make_folder(const std::string& folder);

}  // namespace mxlite::server
