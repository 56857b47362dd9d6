// The one place that decides how many threads compute.
#pragma once

namespace mxlite {

// MXLITE_CPU_THREADS, else OMP_NUM_THREADS, else the cores this process may use (affinity mask and
// cgroup quota) divided by the ranks on this host.
int cpu_threads();
void set_cpu_threads(int count);

}  // namespace mxlite
