// A library as those of pip's packages: in nvidia/<package>/lib, where no loader looks.
extern "C" __attribute__((visibility("default"))) int mxlite_test_needed() { return 42; }
