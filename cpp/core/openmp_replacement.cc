// Replaces the calls of libgomp in a library that is already loaded: writes the addresses of our
// functions to the library's table of external functions. Other libraries keep their libgomp.
// Exporting functions with libgomp's names would not suffice: programs that link this library and
// use OpenMP themselves would call some functions of mxlite and some of libgomp.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cpp/base/small_vector.h"
#include "cpp/core/openmp.h"

namespace mxlite::openmp {

#ifdef __x86_64__
namespace {

int get_in_parallel() { return in_parallel(); }
void end_loop_without_waiting() {}

template <class Result, class... Args>
void* address(Result (*function)(Args...)) {
  return reinterpret_cast<void*>(function);
}

const std::pair<std::string_view, void*> kReplacements[] = {
    {"GOMP_barrier", address(&wait_at_barrier)},
    {"GOMP_loop_end", address(&wait_at_barrier)},
    {"GOMP_loop_end_nowait", address(&end_loop_without_waiting)},
    {"GOMP_loop_static_next", address(&next_static_block)},
    {"GOMP_loop_static_start", address(&start_static_loop)},
    {"GOMP_parallel_end", address(&end_region)},
    {"GOMP_parallel_start", address(&begin_region)},
    {"omp_get_max_threads", address(&get_max_threads)},
    {"omp_get_num_threads", address(&get_num_threads)},
    {"omp_get_thread_num", address(&get_thread_num)},
    {"omp_in_parallel", address(&get_in_parallel)},
};

// The tables of a loaded library.
struct Tables {
  uintptr_t base = 0;  // added to the addresses in the tables
  std::span<const Elf64_Rela> calls, others;
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  uintptr_t protected_begin = 0, protected_end = 0;  // read-only since the library was loaded
};

Tables read_tables(const dl_phdr_info& info) {
  Tables t;
  t.base = info.dlpi_addr;
  const Elf64_Dyn* entry = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Elf64_Phdr& p = info.dlpi_phdr[i];
    if (p.p_type == PT_DYNAMIC) entry = reinterpret_cast<const Elf64_Dyn*>(t.base + p.p_vaddr);
    if (p.p_type == PT_GNU_RELRO) {
      t.protected_begin = t.base + p.p_vaddr;
      t.protected_end = t.protected_begin + p.p_memsz;
    }
  }
  const Elf64_Rela *calls = nullptr, *others = nullptr;
  size_t call_bytes = 0, other_bytes = 0;
  // glibc has already added the base to this address; other loaders have not.
  const auto set = [&](auto*& table, const Elf64_Dyn& e) {
    const uintptr_t place = e.d_un.d_ptr;
    table = reinterpret_cast<std::remove_reference_t<decltype(table)>>(
        place < t.base ? t.base + place : place);
  };
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_JMPREL) set(calls, *entry);
    if (entry->d_tag == DT_RELA) set(others, *entry);
    if (entry->d_tag == DT_SYMTAB) set(t.symbols, *entry);
    if (entry->d_tag == DT_STRTAB) set(t.names, *entry);
    if (entry->d_tag == DT_PLTRELSZ) call_bytes = entry->d_un.d_val;
    if (entry->d_tag == DT_RELASZ) other_bytes = entry->d_un.d_val;
  }
  if (calls) t.calls = {calls, call_bytes / sizeof *calls};
  if (others) t.others = {others, other_bytes / sizeof *others};
  return t;
}

struct Search {
  uintptr_t function;
  Tables found;
};

// Called for each loaded library. Returns 1 for the library that contains the function.
int find_library(dl_phdr_info* info, size_t, void* search) {
  auto& s = *static_cast<Search*>(search);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const Elf64_Phdr& p = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type != PT_LOAD || s.function < begin || s.function >= begin + p.p_memsz) continue;
    s.found = read_tables(*info);
    return 1;
  }
  return 0;
}

struct Replacement {
  void** place;
  void* function;
};

bool write_replacement(const Tables& t, const Replacement& r) {
  const auto place = reinterpret_cast<uintptr_t>(r.place);
  const bool is_protected = place >= t.protected_begin && place < t.protected_end;
  const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(place / page_bytes * page_bytes);
  if (is_protected && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  *r.place = r.function;
  if (is_protected) mprotect(page, page_bytes, PROT_READ);
  return true;
}

// Returns null on success, otherwise the reason why nothing has changed.
const char* replace(const void* function) {
  Search search{reinterpret_cast<uintptr_t>(function), {}};
  if (dl_iterate_phdr(&find_library, &search) == 0) return "the library was not found";
  const Tables& t = search.found;
  if (!t.symbols || !t.names) return "the library has no table of symbols";
  SmallVector<Replacement, 16> replacements;
  for (const auto& table : {t.calls, t.others})
    for (const Elf64_Rela& call : table) {
      const std::string_view name = t.names + t.symbols[ELF64_R_SYM(call.r_info)].st_name;
      if (!name.starts_with("GOMP_") && !name.starts_with("omp_") && !name.starts_with("__kmpc_"))
        continue;
      const auto* const found =
          std::ranges::find(kReplacements, name, &std::pair<std::string_view, void*>::first);
      const auto type = ELF64_R_TYPE(call.r_info);
      if (found == std::end(kReplacements) || call.r_addend != 0 ||
          (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT))
        return "the library calls another function of OpenMP";
      replacements.push_back({reinterpret_cast<void**>(t.base + call.r_offset), found->second});
    }
  if (replacements.empty()) return "the library does not call libgomp";
  for (const Replacement& r : replacements)
    if (!write_replacement(t, r)) return "the table of external functions cannot be written";
  return nullptr;
}

}  // namespace
#else
namespace {
const char* replace(const void*) { return "the processor is not x86-64"; }
}  // namespace
#endif

const char* replace_libgomp(const void* function) {
  const char* const reason = replace(function);
  if (!reason) return nullptr;
  Dl_info library;
  if (dladdr(function, &library) == 0) return reason;
  void* const handle = dlopen(library.dli_fname, RTLD_NOLOAD | RTLD_LAZY);  // never closed
  if (!handle) return reason;
  set_num_threads_of_libgomp =
      reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
  return reason;
}

}  // namespace mxlite::openmp
