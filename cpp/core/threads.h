// Decides how many threads compute.
#pragma once

namespace mxlite {

// Returns MXLITE_CPU_THREADS, else OMP_NUM_THREADS, else the available cores (affinity mask and
// cgroup quota) divided by the ranks on this host.
int cpu_threads();
void set_cpu_threads(int count);

}  // namespace mxlite
