// Lets the comm thread carry out runs of executables with collectives.
#pragma once
#include "cpp/kvstore/horovod/graph_run.h"
#include "cpp/ops/collective/graph_call.h"

namespace mxlite::python {

IntrusivePtr<horovod::GraphRun> graph_run_of_job(IntrusivePtr<collective::GraphRun> run);

}  // namespace mxlite::python
