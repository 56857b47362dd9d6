// Reports accesses outside of memory as errors. The work is abandoned at the access.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace emulation {

// Calls work(). Returns what happened if it accessed memory that it must not access, such as "it
// accessed byte 96 of an allocation of 96 bytes"; in that case objects of the work are not
// destroyed.
std::optional<std::string> find_fault(const std::function<void()>& work);

// Functions that check the memory of kernels.
struct MemoryChecks {
  // Returns where an address lies: "byte 96 of an allocation of 96 bytes".
  std::string (*describe)(const void* address) = nullptr;
  // Returns where something was written beside an allocation since the last call; empty: nowhere.
  std::string (*find_damage)() = nullptr;
};
// Must be called before kernels run.
void set_memory_checks(const MemoryChecks& checks);

// Calls work(). Throws an error with the name if the work accessed memory that it must not access.
void run_checked(const char* name, const std::function<void()>& work);

}  // namespace emulation
