// Runs collective operators in the job that this process has joined.
#pragma once

namespace mxlite::jobs {

// Registers this implementation. Without it, collective operators run in a world of one process.
void provide_processes();

}  // namespace mxlite::jobs
