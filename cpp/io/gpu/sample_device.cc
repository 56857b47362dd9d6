#include "cpp/io/gpu/sample_device.h"

#include <atomic>

namespace mxlite::io {
namespace {

std::atomic<SampleDevice*> device_of_plugin{nullptr};

}  // namespace

void set_sample_device(SampleDevice* device) { device_of_plugin = device; }

SampleDevice* sample_device() { return device_of_plugin; }

}  // namespace mxlite::io
