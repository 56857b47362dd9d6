// Note [Subnormal numbers in parallel regions]
// Threads of a parallel region flush subnormal numbers if and only if the thread that begins the
// region does. The linker sends the calls of GOMP_parallel, with which GCC begins every region of
// libmxlite.so, to the function below (Libraries.cmake).
// oneDNN begins regions of its own, and its kernels flush. So the threads of a pool flush between
// regions: a new thread has the flags of the thread that creates it, which flushes in
// GOMP_parallel, and the function restores the flags of every thread at the end of a region. The
// same holds for the few regions that begin with another function (`schedule(dynamic)`), which are
// parts of kernels that flush.
#include "cpp/core/subnormals.h"

namespace mxlite {
namespace {

using Body = void (*)(void*);

struct Region {
  Body body;
  void* data;
  bool flushes;
};

void run_region(void* region) {
  const auto& r = *static_cast<Region*>(region);
  const FlushSubnormals flush(r.flushes);
  r.body(r.data);
}

}  // namespace

extern "C" void __real_GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags);
extern "C" void __wrap_GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) {
  Region region{body, data, FlushSubnormals::is_on()};
  const FlushSubnormals flush;
  __real_GOMP_parallel(&run_region, &region, threads, flags);
}

}  // namespace mxlite
