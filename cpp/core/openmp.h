// Regions that several threads run, for the loops of parallel.h and for oneDNN. See Note
// [Regions of threads] in openmp.cc. The functions behave like OpenMP's functions of the same
// names.
#pragma once
#include <atomic>

namespace mxlite::openmp {

using Body = void (*)(void*);

// Calls body(data) once for each of at most `threads` shares. Participating threads flush subnormal
// numbers if and only if the calling thread does. If shares throw, throws the exception of one of
// them after all shares have ended.
void run_region(Body body, void* data, unsigned threads);

int get_thread_num();   // index of the share that this thread runs
int get_num_threads();  // number of shares of the region of this thread
int get_max_threads();
void set_num_threads(int count);
bool in_parallel();

// Begins a region for oneDNN. Helping threads flush subnormal numbers to zero, and the caller runs
// share 0 itself. If `threads` is 0, the region has get_max_threads() shares.
void begin_region(Body body, void* data, unsigned threads);
void end_region();
void wait_at_barrier();
// Begins a loop with schedule(static) in a region. The functions give each share its next block
// [*first, *last) of the loop, and return false if the share has no block left.
bool start_static_loop(long start, long end, long step, long chunk, long* first, long* last);
bool next_static_block(long* first, long* last);

// Makes the library that contains `function` call the functions above instead of the functions of
// libgomp. Returns null on success. Otherwise changes nothing and returns the reason, for example
// that the library calls another OpenMP function. The library must not have begun a region yet.
const char* replace_libgomp(const void* function);
// Set if libgomp was not replaced, so that set_num_threads() also sets the number for the library.
extern std::atomic<void (*)(int)> set_num_threads_of_libgomp;

}  // namespace mxlite::openmp
