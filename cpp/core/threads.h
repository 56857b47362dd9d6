// Determines the number of threads that compute.
#pragma once

namespace mxlite {

// Returns MXLITE_CPU_THREADS or OMP_NUM_THREADS if set. Otherwise returns the available cores
// (affinity mask and cgroup quota) divided by the number of ranks on this host.
int cpu_threads();
void set_cpu_threads(int count);

}  // namespace mxlite
