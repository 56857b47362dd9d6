// Files that are either complete or absent. They are written under a temporary name, synced and
// then renamed. Each file ends with a checksum.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mxlite::server {

// Name of a snapshot file in errors about its content.
inline constexpr const char* kSnapshot = "parameter server: a snapshot";

void write_snapshot(const std::string& path, std::span<const std::span<const std::byte>> parts);
// Returns the content of a snapshot. Throws a record error if the file is damaged.
std::vector<std::byte> read_snapshot(const std::string& path);

std::vector<std::string> files_in(const std::string& folder, const std::string& suffix);
void make_folder(const std::string& folder);

}  // namespace mxlite::server
