// One call of RNN in its compute type C (double for float64, else float): runs the layers one after
// another. Backward also uses this class if forward has kept no values.
#pragma once
#include <cstddef>

#include "cpp/core/random.h"
#include "cpp/ops/cpu/nn/parallel.h"
#include "cpp/ops/cpu/nn/rnn_steps.h"
#include "cpp/ops/kernel.h"

namespace mxlite::cpu {

// Inputs in the compute type; 16-bit floats are converted to scratch memory.
template <class C>
struct RnnOperands {
  const C *data = nullptr, *parameters = nullptr, *state = nullptr, *cell = nullptr;
  const int64_t* lengths = nullptr;
};

template <class C>
struct RnnResults {
  C *output = nullptr, *state = nullptr, *cell = nullptr;
};

// The inputs data, parameters, state, [cell], [lengths] of a call.
template <class C>
class RnnLoader {
 public:
  RnnLoader(const RnnParams& p, Inputs in, ScratchPlan& plan) : params_(p), in_(in) {
    for (size_t i = 0; i < count(); ++i) at_[i] = plan.add<C>(in[i].size());
    if (p.use_sequence_length) lengths_at_ = plan.add<int64_t>(in[count()].size());
  }
  RnnOperands<C> load(void* scratch) const;

 private:
  size_t count() const { return params_.is_lstm() ? 4 : 3; }
  const RnnParams& params_;
  Inputs in_;
  size_t at_[4] = {}, lengths_at_ = 0;
};

int rnn_threads(const RnnSizes& s);
RnnClip rnn_clip(const RnnParams& p);

// Memory in which training keeps the values of one layer and direction.
template <class C>
struct RnnKept {
  C *gates, *hidden, *cell, *recurrent, *inner;
  RnnKept(const RnnReserve& r, void* reserve, int64_t part_index) {
    void* base = part<std::byte>(reserve, r.part_bytes * static_cast<size_t>(part_index));
    gates = part<C>(base, r.first.gates);
    hidden = part<C>(base, r.first.hidden);
    cell = part<C>(base, r.first.cell);
    recurrent = part<C>(base, r.first.recurrent);
    inner = part<C>(base, r.first.inner);
  }
};

template <class C>
class RnnForwardPass {
 public:
  // Adds the required scratch memory to `plan`. `save`: forward writes a reserve.
  RnnForwardPass(const RnnParams& p, const RnnSizes& s, bool save, ScratchPlan& plan);
  // `random` is for dropout between the layers, or null.
  void run(const RnnOperands<C>& in, const RnnResults<C>& out, void* reserve, void* scratch,
           const RandomState* random) const;

 private:
  void drop(C* values, uint8_t* mask, int64_t layer, const RandomState& random) const;

  const RnnParams& params_;
  RnnSizes sizes_;
  RnnBlocks blocks_;
  RnnReserve reserve_;
  bool save_;
  int threads_;
  int64_t chunk_;
  size_t packed_ = 0, gates_ = 0, hidden_ = 0, cell_ = 0, inner_ = 0, outputs_[2] = {};
};

}  // namespace mxlite::cpu
