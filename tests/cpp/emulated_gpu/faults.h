// Accesses outside of memory as errors: the work is left where it stands.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace emulation {

// Calls work(). Returns what happened if it accessed memory that it may not, such as "it accessed
// byte 96 of an allocation of 96 bytes"; objects of the work are then not destroyed.
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

// Calls work(); throws an error with the name if the work accessed memory that it may not.
void run_checked(const char* name, const std::function<void()>& work);

}  // namespace emulation
