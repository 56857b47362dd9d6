// Carries out collective operators in the job that this process has joined.
#pragma once

namespace mxlite::jobs {

// Lets collective operators run in a job; until then every process is alone.
void provide_processes();

}  // namespace mxlite::jobs
