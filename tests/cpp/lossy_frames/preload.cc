// A library for LD_PRELOAD that makes connections of a parameter server job unreliable.
// LOSSY_FRAMES="10 10 10 20 3" drops 10 % of the received frames, doubles 10 %, delays 10 % by up
// to 20 ms, and seeds the random numbers with 3. tests/faults/server_faults.py preloads it.
#include <cstdio>
#include <cstdlib>

#include "tests/cpp/lossy_frames.h"

mxlite::FrameFilter* mxlite_make_frame_filter() {
  const char* given = std::getenv("LOSSY_FRAMES");
  mxlite::FaultRates r;
  if (!given || std::sscanf(given, "%lf %lf %lf %lf %lu", &r.drop, &r.duplicate, &r.delay,
                            &r.delay_ms, &r.seed) != 5) {
    std::fprintf(stderr, "LOSSY_FRAMES='%s' given, five numbers expected\n", given ? given : "");
    std::abort();
  }
  return new mxlite::LossyFrames(r);
}
