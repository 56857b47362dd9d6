// A chunk of samples that the pipeline's threads fill.
#pragma once
#include <exception>
#include <vector>

#include "cpp/io/image_pipeline.h"

namespace mxlite::io {

enum class SampleStage : uint8_t { kRecord, kLabel, kImage };

struct ImagePipeline::Chunk {
  int64_t number = 0, rows = 0;
  ImageBatch batch;
  struct Failure {
    std::exception_ptr error;
    SampleStage stage = SampleStage::kRecord;
  };
  std::vector<Failure> failures;  // indexed by row; the worker that makes a row writes its entry
  int64_t missing = 0;            // number of unfinished rows; guarded by mutex_
};

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0xD1B54A32D192ED03ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace mxlite::io
