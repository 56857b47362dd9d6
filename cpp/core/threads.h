// Determines the number of threads that compute.
#pragma once
#include <cstdint>
#include <limits>

namespace mxlite {

// Returns MXLITE_CPU_THREADS or OMP_NUM_THREADS if set. Otherwise returns the available cores
// (affinity mask and cgroup quota) divided by the number of ranks on this host.
int cpu_threads();
void set_cpu_threads(int count);

// A call uses one thread for each 25 us of work, so a second thread from 50 us on. A polling thread
// starts within 1 us, and a sleeping thread within 50 us.
constexpr double kWorkPerThread = 25e3;  // in ns

// Returns the number of threads of a call that takes `work` nanoseconds on one thread and can be
// divided into `parts`. Every operator calls this function. Operators that divide loops by
// cpp/ops/cpu/nn/parallel.h call it indirectly after the loop was measured.
int threads_for(double work, int64_t parts = std::numeric_limits<int64_t>::max());
// Time of one multiply-add of a fast float32 product, in ns. The value is that of AVX2 in small
// matrices.
constexpr double kProductNanoseconds = 1.0 / 16;

// Returns how often a thread polls before it sleeps: GOMP_SPINCOUNT or the meaning of
// OMP_WAIT_POLICY if one of them is set, otherwise 5000, which takes about 0.1 ms.
int64_t thread_polls();

}  // namespace mxlite
