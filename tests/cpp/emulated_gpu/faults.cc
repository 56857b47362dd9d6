#include "tests/cpp/emulated_gpu/faults.h"

#undef _FORTIFY_SOURCE  // its longjmp refuses to jump from one fiber's stack to another
#include <setjmp.h>
#include <signal.h>

#include <array>
#include <utility>

#include "cpp/base/error.h"
#include "tests/cpp/emulated_gpu/schedule.h"

namespace emulation {
namespace {

struct Fault {
  const void* address;
  bool known;  // the processor does not report every address
};

MemoryChecks memory_checks;
thread_local sigjmp_buf* way_out = nullptr;
thread_local Fault fault;
constexpr std::array kSignals{SIGSEGV, SIGBUS};
std::array<struct sigaction, kSignals.size()> others;  // handlers that were there before

void on_fault(int signal, siginfo_t* info, void* context) {
  if (way_out) {
    fault = {info->si_addr, info->si_code != SI_KERNEL};
    siglongjmp(*way_out, 1);
  }
  const struct sigaction& other = others[signal == kSignals[0] ? 0 : 1];
  if (other.sa_flags & SA_SIGINFO) return other.sa_sigaction(signal, info, context);
  if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) return other.sa_handler(signal);
  sigaction(signal, &other, nullptr);  // the access is repeated and ends the process
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  // The handler is left by a jump, which does not unblock the signal.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &others[i]);
  return true;
}

std::string text_of(const Fault& f) {
  if (!f.known) return "it accessed an address that is not aligned, or that no memory can have";
  if (memory_checks.describe) return "it accessed " + memory_checks.describe(f.address);
  return mxlite::str("it accessed address ", f.address, ", where there is no memory");
}

}  // namespace

std::optional<std::string> find_fault(const std::function<void()>& work) {
  [[maybe_unused]] static const bool installed = install();
  sigjmp_buf here;
  sigjmp_buf* const outer = way_out;
  if (sigsetjmp(here, 0) != 0) {
    way_out = outer;
    return text_of(fault);
  }
  way_out = &here;
  try {
    work();
  } catch (...) {
    way_out = outer;
    throw;
  }
  way_out = outer;
  return std::nullopt;
}

void set_memory_checks(const MemoryChecks& checks) { memory_checks = checks; }

void run_checked(const char* name, const std::function<void()>& work) {
  if (const auto found = find_fault(work))
    mxlite::fail(mxlite::ErrorKind::kError, "emulated GPU: ", name, " failed: ", *found,
                 describe_order());
  if (!memory_checks.find_damage) return;
  if (const std::string damage = memory_checks.find_damage(); !damage.empty())
    mxlite::fail(mxlite::ErrorKind::kError, "emulated GPU: ", name, " failed: it wrote ", damage,
                 describe_order());
}

}  // namespace emulation
