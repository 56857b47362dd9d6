#include "tests/cpp/emulated_gpu/symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

#include "cpp/base/error.h"
#include "tests/cpp/emulated_gpu/emulator.h"

namespace emulation {
namespace {

template <class T>
std::vector<T> read_array(std::ifstream& file, uint64_t at, uint64_t bytes) {
  std::vector<T> result(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(result.data()),
            static_cast<std::streamsize>(result.size() * sizeof(T)));
  return result;
}

void add_symbol(LibrarySymbols& all, const char* base, const Elf64_Sym& s, const char* name) {
  switch (ELF64_ST_TYPE(s.st_info)) {
    case STT_FUNC:
      all.functions.emplace(base + s.st_value, name);
      break;
    case STT_OBJECT:
      all.objects.emplace(base + s.st_value, name);
      break;
    case STT_TLS:
      if (s.st_shndx != SHN_UNDEF)
        all.thread_locals.emplace(name, std::pair{s.st_value, s.st_size});
      break;
    default:
      break;
  }
}

void read_symbols(LibrarySymbols& all, const Dl_info& library) {
  std::ifstream file(library.dli_fname, std::ios::binary);
  const auto headers = read_array<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (!file || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return;
  const Elf64_Ehdr& header = headers[0];
  const auto sections =
      read_array<Elf64_Shdr>(file, header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& text = sections[section.sh_link];
    auto names = read_array<char>(file, text.sh_offset, text.sh_size);
    names.push_back('\0');
    for (const Elf64_Sym& s : read_array<Elf64_Sym>(file, section.sh_offset, section.sh_size))
      if (s.st_name < names.size())
        add_symbol(all, static_cast<const char*>(library.dli_fbase), s, names.data() + s.st_name);
  }
}

struct TlsSearch {
  uintptr_t base;
  size_t module;
};

int find_tls_module(dl_phdr_info* info, size_t, void* argument) {
  auto& search = *static_cast<TlsSearch*>(argument);
  if (info->dlpi_addr != search.base) return 0;
  search.module = info->dlpi_tls_modid;
  return 1;
}

}  // namespace

const LibrarySymbols& symbols_around(const void* address) {
  static std::mutex mutex;
  static auto* const known = new std::map<const void*, std::unique_ptr<LibrarySymbols>>;
  Dl_info library{};
  MX_ASSERT(dladdr(address, &library) != 0);
  const std::lock_guard lock(mutex);
  auto& symbols = (*known)[library.dli_fbase];
  if (symbols) return *symbols;
  symbols = std::make_unique<LibrarySymbols>();
  read_symbols(*symbols, library);
  TlsSearch search{reinterpret_cast<uintptr_t>(library.dli_fbase), 0};
  dl_iterate_phdr(find_tls_module, &search);
  symbols->tls_module = search.module;
  return *symbols;
}

void read_symbols_around(const void* address) { symbols_around(address); }

}  // namespace emulation
