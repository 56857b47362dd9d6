// Names of kernels from the symbol table of the library that holds them: most kernels are local to
// their file, so that dladdr does not know them.
#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "cpp/core/cuda/kernel_name.h"
#include "cpp/core/launch_log.h"
#include "tests/cpp/emulated_gpu/emulator.h"

namespace mxlite::cuda {
namespace {

template <class T>
std::vector<T> read_array(std::ifstream& file, uint64_t at, uint64_t bytes) {
  std::vector<T> result(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(result.data()),
            static_cast<std::streamsize>(result.size() * sizeof(T)));
  return result;
}

// The linker's names of a library's functions, by address. Empty if it was stripped.
std::map<const void*, std::string> functions_of(const Dl_info& library) {
  std::map<const void*, std::string> functions;
  std::ifstream file(library.dli_fname, std::ios::binary);
  const auto headers = read_array<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (!file || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  const Elf64_Ehdr& header = headers[0];
  const auto sections =
      read_array<Elf64_Shdr>(file, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& text = sections[section.sh_link];
    auto names = read_array<char>(file, text.sh_offset, text.sh_size);
    names.push_back('\0');
    for (const Elf64_Sym& s : read_array<Elf64_Sym>(file, section.sh_offset, section.sh_size))
      if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_name < names.size())
        functions.emplace(static_cast<const char*>(library.dli_fbase) + s.st_value,
                          names.data() + s.st_name);
  }
  return functions;
}

const char* find_name(const void* function) {
  static const auto* const functions = [] {
    Dl_info library{};
    dladdr(reinterpret_cast<const void*>(&find_name), &library);
    return new std::map(functions_of(library));
  }();
  const auto found = functions->find(function);
  return found == functions->end() ? "a kernel"
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
