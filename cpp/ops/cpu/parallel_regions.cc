// Note [Subnormal numbers in parallel regions]
// Threads of a parallel region flush subnormal numbers if and only if the thread that begins the
// region flushes. This library begins every region with a call of GOMP_parallel, which the linker
// redirects to __wrap_GOMP_parallel below (Libraries.cmake).
// oneDNN begins regions without __wrap_GOMP_parallel, and its kernels must flush. The threads that
// help therefore flush between regions: those of openmp.cc from their start, and those of a libgomp
// because a new thread inherits the flags of its creator, which flushes during
// __real_GOMP_parallel. run_region restores the flags of each thread at the end of a region.
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
