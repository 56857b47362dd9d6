// Runs collective operators in the job that this process has joined.
#pragma once

namespace mxlite::jobs {

// Registers this implementation; before the call, collective operators see only one process.
void provide_processes();

}  // namespace mxlite::jobs
