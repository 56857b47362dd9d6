// oneDNN's max pooling ignores NaN. Because NaN is rare, the input is searched after pooling, and
// the windows are visited again only if the input contains a NaN.
#include <atomic>
#include <cmath>

#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/onednn/pooling.h"

namespace mxlite::onednn {
namespace {

constexpr int64_t kChunk = 4096;

// `magnitude` masks all bits except the sign. The masked bits of a NaN exceed those of infinity.
template <class Bits>
bool has_nan(const void* memory, size_t bytes, Bits magnitude, Bits infinity) {
  const auto* data = static_cast<const Bits*>(memory);
  const auto size = static_cast<int64_t>(bytes / sizeof(Bits));
  std::atomic<bool> found{false};
  cpu::parallel_for((size + kChunk - 1) / kChunk, kChunk, [&](int64_t chunk) {
    const int64_t end = std::min(size, (chunk + 1) * kChunk);
    Bits largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const Bits bits = static_cast<Bits>(data[i] & magnitude);
      largest = bits > largest ? bits : largest;
    }
    if (largest > infinity) found.store(true, std::memory_order_relaxed);
  });
  return found;
}

// Computes addresses in memory that may consist of blocks of channels.
class Places {
 public:
  explicit Places(const Desc& d) : dims_(d.get_dims()), strides_(d.get_strides()) {
    if (d.get_inner_nblks() == 1) block_ = d.get_inner_blks()[0];
  }
  const Dims& dims() const { return dims_; }
  int64_t plane(int64_t n, int64_t c) const {
    return n * strides_[0] + c / block_ * strides_[1] + c % block_;
  }
  int64_t stride(int axis) const { return strides_[static_cast<size_t>(2 + axis)]; }

 private:
  Dims dims_, strides_;
  int64_t block_ = 1;
};

template <class T>
void spread_nans(const PoolDescs& d, const Places& from, const Places& to, const T* data, T* out) {
  const int axes = static_cast<int>(d.kernel.size());
  int64_t outputs = 1, elements = 1;
  for (int a = 0; a < axes; ++a) {
    outputs *= to.dims()[static_cast<size_t>(2 + a)];
    elements *= d.kernel[static_cast<size_t>(a)];
  }
  const int64_t channels = from.dims()[1];
  cpu::parallel_for(from.dims()[0] * channels, outputs * elements, [&](int64_t plane) {
    const T* image = data + from.plane(plane / channels, plane % channels);
    T* result = out + to.plane(plane / channels, plane % channels);
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t e = 0; e < elements; ++e) {
        int64_t at = 0, place = 0, rest_o = o, rest_e = e;
        bool inside = true;
        for (int a = axes - 1; a >= 0; --a) {
          const auto i = static_cast<size_t>(a);
          const int64_t position = rest_o % to.dims()[2 + i];
          const int64_t x = position * d.stride[i] - d.pad[i] + rest_e % d.kernel[i];
          rest_o /= to.dims()[2 + i];
          rest_e /= d.kernel[i];
          inside &= x >= 0 && x < from.dims()[2 + i];
          at += x * from.stride(a);
          place += position * to.stride(a);
        }
        if (inside && std::isnan(static_cast<float>(image[at]))) result[place] = image[at];
      }
    }
  });
}

}  // namespace

int64_t samples_at_once(const PoolingParams& p, const TensorSpec& data) {
  constexpr int64_t kCacheBytes = 1 << 20;
  const int64_t batch = data.shape[0];
  if (p.pool_type != PoolType::kMax || batch <= 1) return batch;
  const auto sample = static_cast<int64_t>(data.bytes()) / batch;
  int64_t count = std::clamp<int64_t>(kCacheBytes / std::max<int64_t>(sample, 1), 1, batch);
  while (batch % count != 0) --count;
  return count;
}

void keep_nans(const PoolDescs& d, const Desc& from, const Desc& to, const void* data, void* out) {
  const size_t bytes = from.get_size();
  const auto spread = [&]<class T>(T) {
    spread_nans(d, Places(from), Places(to), static_cast<const T*>(data), static_cast<T*>(out));
  };
  switch (from.get_data_type()) {
    case dnnl::memory::data_type::f32:
      if (has_nan<uint32_t>(data, bytes, 0x7fffffff, 0x7f800000)) spread(float{});
      break;
    case dnnl::memory::data_type::bf16:
      if (has_nan<uint16_t>(data, bytes, 0x7fff, 0x7f80)) spread(bfloat16{});
      break;
    case dnnl::memory::data_type::f16:
      if (has_nan<uint16_t>(data, bytes, 0x7fff, 0x7c00)) spread(float16{});
      break;
    default:
      break;  // integers have no NaN
  }
}

}  // namespace mxlite::onednn
