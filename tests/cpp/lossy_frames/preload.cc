// Preloaded into the processes of a parameter server job, makes their connections unreliable:
// LOSSY_FRAMES="10 10 10 20 3" loses 10 % of the received frames, doubles 10 %, delays 10 % by up
// to 20 ms, and seeds the random numbers with 3. tests/faults/server_faults.py does so.
#include <cstdio>
#include <cstdlib>

#include "tests/cpp/lossy_frames.h"

namespace mxlite::server {
namespace {

[[gnu::constructor]] void install() {
  const char* given = std::getenv("LOSSY_FRAMES");
  if (!given) return;
  FaultRates& r = LossyFrames::rates();
  unsigned long seed = 0;
  if (std::sscanf(given, "%lf %lf %lf %lf %lu", &r.drop, &r.duplicate, &r.delay, &r.delay_ms,
                  &seed) != 5) {
    std::fprintf(stderr, "LOSSY_FRAMES='%s' given, five numbers expected\n", given);
    std::abort();
  }
  r.seed = seed;
  set_frame_filter(&LossyFrames::make);
}

}  // namespace
}  // namespace mxlite::server
