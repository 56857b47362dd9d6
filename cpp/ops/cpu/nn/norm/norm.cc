#include "cpp/ops/cpu/nn/norm/norm.h"

#include <algorithm>
#include <cmath>

#include "cpp/core/dtype.h"
#include "cpp/core/subnormals.h"
#include "cpp/ops/cpu/nn/norm/norm_rows.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/processor.h"

namespace mxlite::cpu {
namespace {

constexpr int64_t kMostLanes = 16;  // floats of the widest register

template <class T>
const NormRows<T>& norm_rows() {
  return cpu::has_avx512() ? avx512::norm_rows<T>() : avx2::norm_rows<T>();
}

// Number of rows after which float sums are added to double sums.
constexpr int64_t kRows = 256;

// Consecutive rows of contiguous channels: of all channels, or of one block of channels.
struct Piece {
  int64_t offset;  // in elements
  int64_t rows, channel;
};

struct Pieces {
  int64_t per_plane, count, plane_rows, width, blocks;

  explicit Pieces(const NormMemory& m)
      : plane_rows(m.block ? m.pixels : m.batch * m.pixels),
        width(m.block ? m.block : m.channels),
        blocks(m.block ? m.channels / m.block : 1) {
    per_plane = (plane_rows + kRows - 1) / kRows;
    count = per_plane * (m.block ? m.batch * blocks : 1);
  }
  Piece at(int64_t i) const {
    const int64_t plane = i / per_plane, first = i % per_plane * kRows;
    return {(plane * plane_rows + first) * width, std::min(kRows, plane_rows - first),
            plane % blocks * width};
  }
};

int64_t padded(int64_t channels) { return (channels + kMostLanes - 1) / kMostLanes * kMostLanes; }

// Arrays with a value per channel. Each thread has separate sums and totals.
struct Scratch {
  float *pivot, *mean, *scale, *shift, *slope;  // shared by all threads
  float* sums;                                  // [2][channels] per thread
  double* totals;                               // [2][channels] per thread
  double* all_totals;
  int64_t channels;

  Scratch(void* memory, const NormMemory& m, int thread) : channels(padded(m.channels)) {
    all_totals = static_cast<double*>(memory);
    totals = all_totals + thread * 2 * channels;
    auto* floats = reinterpret_cast<float*>(all_totals + m.threads * 2 * channels);
    for (float** part : {&pivot, &mean, &scale, &shift, &slope}) {
      *part = floats;
      floats += channels;
    }
    sums = floats + thread * 2 * channels;
  }
  static size_t bytes(const NormMemory& m) {
    const auto channels = static_cast<size_t>(padded(m.channels));
    const auto threads = static_cast<size_t>(m.threads);
    return channels * (threads * 2 * (sizeof(double) + sizeof(float)) + 5 * sizeof(float));
  }
  void clear() {
    std::fill_n(sums, 2 * channels, 0.0f);
    std::fill_n(totals, 2 * channels, 0.0);
  }
  // Adds the sums of the channels [first, first + count) to the totals and clears the sums.
  void flush(int64_t first, int64_t count) {
    for (int64_t k = 0; k < 2; ++k)
      for (int64_t c = k * channels + first; c < k * channels + first + count; ++c) {
        totals[c] += static_cast<double>(sums[c]);
        sums[c] = 0;
      }
  }
  double total(int64_t which, int64_t c, int64_t threads) const {
    double sum = 0;
    for (int64_t t = 0; t < threads; ++t) sum += all_totals[(t * 2 + which) * channels + c];
    return sum;
  }
};

constexpr int64_t kChannelWork = 32;  // cost of a channel's statistics, in elements

struct Range {
  int64_t first, last;
};
Range share(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// Calls fn(piece) for every piece of the thread and adds the sums to the totals.
void add_up(const Pieces& pieces, Range mine, Scratch& s, auto&& fn) {
  s.clear();
  for (int64_t i = mine.first; i < mine.last; ++i) {
    const Piece piece = pieces.at(i);
    fn(piece);
    s.flush(piece.channel, std::min(pieces.width, s.channels - piece.channel));
  }
}

// Visits pieces in reverse order, because the rows read last are still in the cache.
void for_pieces(const Pieces& pieces, Range mine, auto&& fn) {
  for (int64_t i = mine.last; i-- > mine.first;) fn(pieces.at(i));
}

template <class T>
void first_row(const NormMemory& m, const T* data, float* pivot) {
  for (int64_t c = 0; c < m.channels; ++c)
    pivot[c] =
        static_cast<float>(data[m.block ? c / m.block * m.pixels * m.block + c % m.block : c]);
}

template <class T, NormEnd kEnd>
void forward(const NormMemory& m, const NormForwardArgs& a, void* scratch) {
  const auto *data = static_cast<const T*>(a.data), *added = static_cast<const T*>(a.added);
  auto* const output = static_cast<T*>(a.output);
  const double count = static_cast<double>(m.batch * m.pixels);
  const Pieces pieces(m);
  const NormRows<T>& loops = norm_rows<T>();
  const auto end = static_cast<size_t>(kEnd);
  const int threads = m.threads;
  const bool batch_stats = a.stats == NormForwardArgs::kBatch;
  const Scratch s(scratch, m, 0);
  if (batch_stats) {
    // Uses a value of the channel as pivot, because a large mean would cause cancellation in the
    // variance.
    first_row(m, data, s.pivot);
    run_shares(threads, [&](int64_t me) {
      Scratch own(scratch, m, static_cast<int>(me));
      add_up(pieces, share(pieces.count, me, threads), own, [&](const Piece& p) {
        loops.add_moments(data + p.offset, p.rows, pieces.width, own.pivot + p.channel,
                          own.sums + p.channel, own.sums + own.channels + p.channel);
      });
    });
  }
  parallel_for(m.channels, kChannelWork, [&](int64_t c) {
    if (a.stats == NormForwardArgs::kGiven) {
      s.mean[c] = a.mean[c];
      s.scale[c] = (a.gamma ? a.gamma[c] : 1.0f) * a.inv_std[c];
      s.shift[c] = a.beta[c];
      return;
    }
    float inv_std;
    if (batch_stats) {
      const double shifted = s.total(0, c, threads) / count;
      const double mean = shifted + static_cast<double>(s.pivot[c]);
      const double var = std::max(s.total(1, c, threads) / count - shifted * shifted, 0.0);
      const auto momentum = static_cast<double>(a.momentum);
      const auto blend = [&](float old, double now) {
        return static_cast<float>(static_cast<double>(old) * momentum + now * (1 - momentum));
      };
      a.moving_mean[c] = blend(a.moving_mean[c], mean);
      a.moving_var[c] = blend(a.moving_var[c], var);
      s.mean[c] = static_cast<float>(mean);
      inv_std = static_cast<float>(1 / std::sqrt(var + static_cast<double>(a.eps)));
    } else {
      s.mean[c] = a.moving_mean[c];
      inv_std = 1 / std::sqrt(a.moving_var[c] + a.eps);
    }
    if (a.mean) a.mean[c] = s.mean[c];
    if (a.inv_std) a.inv_std[c] = inv_std;
    s.scale[c] = (a.gamma ? a.gamma[c] : 1.0f) * inv_std;
    s.shift[c] = a.beta[c];
  });
  run_shares(threads, [&](int64_t me) {
    for_pieces(pieces, share(pieces.count, me, threads), [&](const Piece& p) {
      loops.normalize[end](data + p.offset, added + (added ? p.offset : 0), output + p.offset,
                           p.rows, pieces.width, s.mean + p.channel, s.scale + p.channel,
                           s.shift + p.channel);
    });
  });
}

// With batch statistics, for one channel of n elements and x_hat = (x - mean) * inv_std:
// grad = gamma * inv_std * (og - sum(og) / n - x_hat * sum(og * x_hat) / n).
template <class T, NormEnd kEnd>
void backward(const NormMemory& m, const NormBackwardArgs& a, void* scratch) {
  const auto *data = static_cast<const T*>(a.data), *grad = static_cast<const T*>(a.grad);
  const auto* output = static_cast<const T*>(a.output);
  auto *const data_grad = static_cast<T*>(a.data_grad), *const added_grad =
                                                            static_cast<T*>(a.added_grad);
  const double count = static_cast<double>(m.batch * m.pixels);
  const Pieces pieces(m);
  const NormRows<T>& loops = norm_rows<T>();
  const auto end = static_cast<size_t>(kEnd);
  const int threads = m.threads;
  const Scratch s(scratch, m, 0);
  parallel_for(m.channels, kChannelWork, [&](int64_t c) {
    s.mean[c] = a.mean[c];
    s.scale[c] = (a.gamma ? a.gamma[c] : 1.0f) * a.inv_std[c];
    s.shift[c] = kEnd == NormEnd::kRelu ? a.beta[c] : 0.0f;
  });
  run_shares(threads, [&](int64_t me) {
    Scratch own(scratch, m, static_cast<int>(me));
    add_up(pieces, share(pieces.count, me, threads), own, [&](const Piece& p) {
      constexpr bool kAdd = kEnd == NormEnd::kAddRelu;
      loops.add_grads[end](grad + p.offset, data + p.offset, kAdd ? output + p.offset : nullptr,
                           kAdd ? added_grad + p.offset : nullptr, p.rows, pieces.width,
                           s.mean + p.channel, s.scale + p.channel, s.shift + p.channel,
                           own.sums + p.channel, own.sums + s.channels + p.channel);
    });
  });
  parallel_for(m.channels, kChannelWork, [&](int64_t c) {
    const double sum = s.total(0, c, threads), product = s.total(1, c, threads);
    const auto inv_std = static_cast<double>(a.inv_std[c]);
    a.beta_grad[c] = static_cast<float>(sum);
    a.gamma_grad[c] = a.gamma ? static_cast<float>(product * inv_std) : 0.0f;
    s.pivot[c] = a.batch_stats ? static_cast<float>(sum / count) : 0.0f;
    s.slope[c] = a.batch_stats ? static_cast<float>(product * inv_std * inv_std / count) : 0.0f;
  });
  // The first pass has stored the gradient that passes through relu in added_grad.
  const T* const passed = kEnd == NormEnd::kAddRelu ? added_grad : grad;
  run_shares(threads, [&](int64_t me) {
    for_pieces(pieces, share(pieces.count, me, threads), [&](const Piece& p) {
      loops.apply_grads[end](passed + p.offset, data + p.offset, data_grad + p.offset, p.rows,
                             pieces.width, s.mean + p.channel, s.scale + p.channel,
                             s.shift + p.channel, s.pivot + p.channel, s.slope + p.channel);
    });
  });
}

template <template <class, NormEnd> class Run, class... Args>
void dispatch(const NormMemory& m, NormEnd end, const Args&... args) {
  const auto with = [&]<class T>(T) {
    switch (end) {
      case NormEnd::kPlain:
        return Run<T, NormEnd::kPlain>::run(m, args...);
      case NormEnd::kRelu:
        return Run<T, NormEnd::kRelu>::run(m, args...);
      case NormEnd::kAddRelu:
        return Run<T, NormEnd::kAddRelu>::run(m, args...);
    }
  };
  if (m.bfloat16)
    with(bfloat16{});
  else
    with(float{});
}

template <class T, NormEnd kEnd>
struct Forward {
  static void run(const NormMemory& m, const NormForwardArgs& a, void* scratch) {
    forward<T, kEnd>(m, a, scratch);
  }
};
template <class T, NormEnd kEnd>
struct Backward {
  static void run(const NormMemory& m, const NormBackwardArgs& a, void* scratch) {
    backward<T, kEnd>(m, a, scratch);
  }
};

}  // namespace

size_t norm_scratch_bytes(const NormMemory& m) { return Scratch::bytes(m); }

void norm_forward(const NormMemory& m, NormEnd end, const NormForwardArgs& args, void* scratch) {
  const FlushSubnormals flush;
  dispatch<Forward>(m, end, args, scratch);
}

void norm_backward(const NormMemory& m, NormEnd end, const NormBackwardArgs& args, void* scratch) {
  const FlushSubnormals flush;
  dispatch<Backward>(m, end, args, scratch);
}

}  // namespace mxlite::cpu
