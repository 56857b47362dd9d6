// A library in nvidia/<package>/lib, like those of pip's packages. The loader does not search
// there.
extern "C" __attribute__((visibility("default"))) int mxlite_test_needed() { return 42; }
