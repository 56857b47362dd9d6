// A plug-in that needs the library of needed.cc and has no path to it.
extern "C" int mxlite_test_needed();
extern "C" __attribute__((visibility("default"))) int mxlite_test_needy() {
  return mxlite_test_needed();
}
