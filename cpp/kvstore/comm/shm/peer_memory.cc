#include "cpp/kvstore/comm/shm/peer_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpp/base/error.h"
#include "cpp/core/cpu/shared_memory.h"

namespace mxlite::shm {
namespace {

std::byte* map_file(const SharedPlace& place) {
  const std::string path = str("/proc/", place.process, "/fd/", place.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat info {};
  std::byte* memory = nullptr;
  if (fstat(file, &info) == 0 && info.st_dev == place.device && info.st_ino == place.inode)
    memory = map_aligned(place.file_bytes, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (!memory) return nullptr;
  madvise(memory, place.file_bytes, MADV_DONTFORK);
  madvise(memory, place.file_bytes, MADV_DONTDUMP);
  return memory;
}

}  // namespace

PeerMemory::~PeerMemory() {
  for (File& file : files_) unmap(file);
}

void PeerMemory::unmap(File& file) noexcept {
  if (file.memory) munmap(file.memory, file.place.file_bytes);
  file = {};
}

bool PeerMemory::reach(int r, const SharedPlace& place) {
  File& file = files_[static_cast<size_t>(r)];
  const bool same = file.place.process == place.process && file.place.device == place.device &&
                    file.place.inode == place.inode && file.place.file == place.file;
  if (!same) {
    unmap(file);
    file = {place, map_file(place)};
  }
  return file.memory != nullptr;
}

}  // namespace mxlite::shm
