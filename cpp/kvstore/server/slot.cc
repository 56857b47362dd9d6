#include "cpp/kvstore/server/slot.h"

#include <algorithm>
#include <cstring>

#include "cpp/core/profile_hooks.h"
#include "cpp/kvstore/comm/reduce.h"
#include "cpp/kvstore/server/trace_name.h"
#include "cpp/kvstore/store/compression.h"

namespace mxlite::server {
namespace {

// Adds a row of type T to sums in the compute type of T.
template <class T>
void add_row(const std::byte* row, int64_t width, ComputeType<T>* sum) {
  const T* values = reinterpret_cast<const T*>(row);
  for (int64_t i = 0; i < width; ++i)
    sum[i] = static_cast<ComputeType<T>>(sum[i] + static_cast<ComputeType<T>>(values[i]));
}

bool is_compressed(PushForm form) { return form == PushForm::kTwoBit || form == PushForm::kOneBit; }

store::Compression compression_of(const PushHeader& header) {
  return {header.form == PushForm::kTwoBit ? store::CompressionType::kTwoBit
                                           : store::CompressionType::kOneBit,
          header.threshold};
}

}  // namespace

std::shared_ptr<const Optimizer> SlotContext::optimizer(const std::string& scope) {
  std::lock_guard lock(mutex_);
  const auto found = optimizers_.find(scope);
  return found == optimizers_.end() ? nullptr : found->second;
}

void SlotContext::set_optimizer(const std::string& scope,
                                std::shared_ptr<const Optimizer> optimizer) {
  std::lock_guard lock(mutex_);
  optimizers_[scope] = std::move(optimizer);
}

std::string Slot::name() const { return str("key '", key_, "'"); }

void Slot::init(const PartSpec& spec, const Buffer& data, const Answer& answer) {
  const ProfileScope profile(trace_name("init", key_), ProfileKind::kComm);
  if (ready_) {
    // If the part is already initialized, the request comes from a replaced worker, or from a
    // worker that repeats it because the answer was lost.
    const bool same = spec.dtype == spec_.dtype && spec.count == spec_.count;
    return answer(
        same ? Reply{}
             : error_reply(ErrorKind::kValue,
                           str("init: ", name(), " must have ", spec_.count, " elements of ",
                               spec_.dtype, " as before, got ", spec.count, " of ", spec.dtype)));
  }
  MX_CHECK_KIND(data.bytes == spec.bytes(), ErrorKind::kCommunicator, "init: ", name(),
                ": data must have ", spec.bytes(), " bytes, got ", data.bytes);
  spec_ = spec;
  weight_.dtype = spec.dtype;
  weight_.count = spec.count;
  weight_.row_size = spec.row_size;
  weight_.value = OwnBuffer::allocate(spec.bytes());
  if (data.bytes > 0) std::memcpy(weight_.value.data(), data.data, data.bytes);
  bytes_ = data.bytes;
  const auto workers = static_cast<size_t>(context_.num_workers);
  taken_.assign(workers, 0);
  durable_.assign(workers, 0);
  pulled_version_.assign(workers, 0);
  ready_ = true;
  save();
  answer({});
  answer_pulls();
}

void Slot::check(const PushHeader& header, const Buffer& data) const {
  MX_CHECK_DTYPE(header.dtype == spec_.dtype, "push: ", name(), ": dtype must be ", spec_.dtype,
                 ", got ", header.dtype);
  size_t expected = spec_.bytes();
  if (header.form == PushForm::kRows) {
    checked_rows(header.rows, "push");
    expected = header.rows.size() * static_cast<size_t>(spec_.row_size) * dtype_size(spec_.dtype);
  } else if (is_compressed(header.form)) {
    MX_CHECK_DTYPE(spec_.dtype == DType::kFloat32, "push: ", name(),
                   ": the value must be float32 for compressed gradients, got ", spec_.dtype);
    const int64_t words = compressed_words(compression_of(header).type, spec_.count);
    expected = static_cast<size_t>(words) * sizeof(uint32_t);
  }
  MX_CHECK_SHAPE(data.bytes == expected, "push: ", name(), ": data must have ", expected,
                 " bytes, got ", data.bytes);
}

std::vector<int64_t> Slot::checked_rows(const std::vector<int64_t>& rows, const char* what) const {
  for (const int64_t row : rows)
    MX_CHECK_KIND(row >= 0 && row < spec_.rows(), ErrorKind::kIndex, what, ": ", name(),
                  ": rows must be in [", spec_.first_row, ", ", spec_.first_row + spec_.rows() - 1,
                  "], the rows that this server stores, got ", row + spec_.first_row);
  return rows;
}

// Returns the version, and the step of the worker's last push in a snapshot. The worker need not
// keep pushes up to this step.
Body Slot::progress(int worker) const {
  FrameWriter w;
  w.number(version_);
  w.number(context_.folder.empty() ? ~uint64_t{0} : durable_[static_cast<size_t>(worker)]);
  return w.take();
}

void Slot::push(int worker, PushHeader header, Buffer data, const Answer& answer) {
  const ProfileScope profile(trace_name("push", key_), ProfileKind::kComm);
  MX_CHECK_KIND(ready_, ErrorKind::kValue, "push: init must be called for ", name(), " first");
  const auto w = static_cast<size_t>(worker);
  if (header.step <= taken_[w]) {
    ++context_.duplicates;
    return answer({{}, progress(worker), {}});
  }
  if (header.step != taken_[w] + 1) {
    ++context_.early;  // an earlier push was lost; the worker will repeat the earlier push and then
                       // this one
    return;
  }
  taken_[w] = header.step;  // counts the push even if it fails, because the worker has counted it
  check(header, data);
  ++context_.pushes;
  if (context_.sync) {
    rounds_[header.step].pushes.emplace(worker, Contribution{std::move(header), std::move(data)});
    complete_rounds();
  } else {
    MX_CHECK(context_.optimizer(scope_), "push: ", name(),
             ": asynchronous servers need an optimizer: call set_optimizer first");
    note_staleness(worker);
    std::map<int, Contribution> one;
    one.emplace(worker, Contribution{std::move(header), std::move(data)});
    apply(std::move(one));
  }
  answer({{}, progress(worker), {}});
  answer_pulls();
}

void Slot::complete_rounds() {
  while (!rounds_.empty()) {
    const auto first = rounds_.begin();
    if (first->first != version_ + 1 ||
        first->second.pushes.size() < static_cast<size_t>(context_.num_workers))
      return;
    auto pushes = std::move(first->second.pushes);
    rounds_.erase(first);
    apply(std::move(pushes));
  }
}

void Slot::apply(std::map<int, Contribution> pushes) {
  ++version_;
  try {
    OwnBuffer memory;
    Gradient gradient = merged(pushes, memory);
    if (const auto optimizer = context_.optimizer(scope_)) {
      const ProfileScope profile(trace_name("update", key_));
      optimizer->update(key_, weight_, gradient);
    } else if (gradient.by_rows) {
      // The value becomes the sum. Rows without a gradient become 0.
      OwnBuffer fresh = OwnBuffer::allocate(spec_.bytes());
      std::memset(fresh.data(), 0, fresh.bytes);
      const size_t width = static_cast<size_t>(spec_.row_size) * dtype_size(spec_.dtype);
      for (size_t i = 0; i < gradient.rows.size(); ++i)
        std::memcpy(fresh.data() + static_cast<size_t>(gradient.rows[i]) * width,
                    gradient.data + i * width, width);
      weight_.value = fresh;
    } else {
      if (!memory.memory) {  // the push of a single worker: its frame owns the memory
        memory = OwnBuffer::allocate(spec_.bytes());
        if (memory.bytes > 0) std::memcpy(memory.data(), gradient.data, memory.bytes);
      }
      weight_.value = memory;
    }
    ++context_.updates;
    error_.clear();
  } catch (const Error& e) {
    error_ = str("server: update ", version_, " of ", name(), ": ", e.what());
  }
  if (++since_snapshot_ >= context_.snapshot_updates) save();
}

OwnBuffer Slot::dense(const Contribution& c) const {
  const ProfileScope profile(trace_name("decode", key_));
  OwnBuffer out = OwnBuffer::allocate(spec_.bytes());
  if (is_compressed(c.header.form)) {
    decompress(compression_of(c.header), reinterpret_cast<const uint32_t*>(c.data.data),
               {reinterpret_cast<float*>(out.data()), static_cast<size_t>(spec_.count)});
  } else {
    if (out.bytes > 0) std::memset(out.data(), 0, out.bytes);
    std::map<int, Contribution> one;
    one.emplace(0, c);
    Gradient rows;
    OwnBuffer memory;
    merge_rows(one, rows, memory);
    const size_t width = static_cast<size_t>(spec_.row_size) * dtype_size(spec_.dtype);
    for (size_t i = 0; i < rows.rows.size(); ++i)
      std::memcpy(out.data() + static_cast<size_t>(rows.rows[i]) * width, rows.data + i * width,
                  width);
  }
  return out;
}

Gradient Slot::merged(std::map<int, Contribution>& pushes, OwnBuffer& memory) const {
  const ProfileScope profile(trace_name("merge", key_));
  Gradient gradient;
  gradient.dtype = spec_.dtype;
  gradient.by_rows = std::all_of(pushes.begin(), pushes.end(), [](const auto& p) {
    return p.second.header.form == PushForm::kRows;
  });
  if (gradient.by_rows) {
    merge_rows(pushes, gradient, memory);
    return gradient;
  }
  std::vector<OwnBuffer> made;
  std::vector<const void*> inputs;
  for (const auto& [worker, c] : pushes) {
    if (c.header.form == PushForm::kDense) {
      inputs.push_back(c.data.data);
    } else {
      made.push_back(dense(c));
      inputs.push_back(made.back().data());
    }
  }
  if (inputs.size() == 1) {
    if (!made.empty()) memory = made[0];
    gradient.data = static_cast<const std::byte*>(inputs[0]);
    return gradient;
  }
  memory = OwnBuffer::allocate(spec_.bytes());
  if (spec_.count > 0)
    reduce_buffers(inputs, memory.data(), spec_.count, spec_.dtype, ReduceOp::kSum);
  gradient.data = memory.data();
  return gradient;
}

void Slot::merge_rows(const std::map<int, Contribution>& pushes, Gradient& out,
                      OwnBuffer& memory) const {
  std::vector<int64_t> rows;
  for (const auto& [worker, c] : pushes)
    rows.insert(rows.end(), c.header.rows.begin(), c.header.rows.end());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const int64_t width = spec_.row_size;
  dispatch_dtype(spec_.dtype, [&](auto t) {
    using T = decltype(t);
    using C = ComputeType<T>;
    const size_t row_bytes = static_cast<size_t>(width) * sizeof(T);
    const std::unique_ptr<C[]> sums(new C[rows.size() * static_cast<size_t>(width)]());
    for (const auto& [worker, c] : pushes)
      for (size_t i = 0; i < c.header.rows.size(); ++i) {
        const auto place = std::lower_bound(rows.begin(), rows.end(), c.header.rows[i]);
        add_row<T>(c.data.data + i * row_bytes, width, sums.get() + (place - rows.begin()) * width);
      }
    memory = OwnBuffer::allocate(rows.size() * row_bytes);
    T* values = reinterpret_cast<T*>(memory.data());
    for (size_t i = 0; i < rows.size() * static_cast<size_t>(width); ++i)
      values[i] = static_cast<T>(sums[i]);
  });
  out.data = memory.data();
  out.dtype = spec_.dtype;
  out.by_rows = true;
  out.rows = std::move(rows);
}

void Slot::note_staleness(int worker) {
  const uint64_t behind = version_ - pulled_version_[static_cast<size_t>(worker)];
  ++context_.staleness_counts[std::min<size_t>(behind, kStalenessBins - 1)];
}

void Slot::pull(int worker, uint64_t request, PullHeader header, Answer answer) {
  const ProfileScope profile(trace_name("pull", key_), ProfileKind::kComm);
  // Removes an earlier copy of a repeated request, because the answer must go to the worker's
  // current connection.
  std::erase_if(pulls_,
                [&](const WaitingPull& p) { return p.worker == worker && p.request == request; });
  pulls_.push_back({request, worker, std::move(header), std::move(answer)});
  answer_pulls();
}

bool Slot::can_answer(const WaitingPull& pull) const {
  if (!ready_) return false;
  const auto worker = static_cast<size_t>(pull.worker);
  if (context_.sync) return version_ >= pull.header.step;
  if (taken_[worker] < pull.header.step) return false;
  if (context_.staleness < 0) return true;
  uint64_t slowest = pull.header.step;
  for (size_t w = 0; w < taken_.size(); ++w)
    if (!context_.gone[w]) slowest = std::min(slowest, taken_[w]);
  return pull.header.step - slowest <= static_cast<uint64_t>(context_.staleness);
}

void Slot::answer_pulls() {
  std::vector<WaitingPull> ready, still;
  for (WaitingPull& p : pulls_) (can_answer(p) ? ready : still).push_back(std::move(p));
  pulls_ = std::move(still);
  update_waits();
  for (WaitingPull& p : ready) answer_pull(p);
}

void Slot::answer_pull(WaitingPull& p) {
  const ProfileScope profile(trace_name("reply", key_), ProfileKind::kComm);
  try {
    MX_CHECK_KIND(error_.empty(), ErrorKind::kError, error_);
    ++context_.pulls;
    pulled_version_[static_cast<size_t>(p.worker)] = version_;
    Reply reply{{}, progress(p.worker), weight_.value.shared()};
    if (p.header.by_rows) {
      const std::vector<int64_t> rows = checked_rows(p.header.rows, "pull");
      const size_t width = static_cast<size_t>(spec_.row_size) * dtype_size(spec_.dtype);
      MX_CHECK_KIND(rows.size() * width <= kMostData, ErrorKind::kCommunicator, "pull: ", name(),
                    ": the requested rows must have at most ", kMostData, " bytes, got ",
                    rows.size(), " rows of ", width);
      const OwnBuffer some = OwnBuffer::allocate(rows.size() * width);
      for (size_t i = 0; i < rows.size(); ++i)
        std::memcpy(some.data() + i * width,
                    weight_.value.data() + static_cast<size_t>(rows[i]) * width, width);
      reply.data = some.shared();
    }
    p.answer(std::move(reply));
  } catch (const Error& e) {
    p.answer({e, {}, {}});
  }
}

void Slot::status(int worker, const Answer& answer) {
  MX_CHECK_KIND(ready_, ErrorKind::kValue, "init must be called for ", name(), " first");
  answer({{}, encode(taken_[static_cast<size_t>(worker)]), {}});
}

std::string Slot::absent(const Round& round, bool only_gone) const {
  std::string text;
  for (int w = 0; w < context_.num_workers; ++w)
    if (!round.pushes.count(w) && (!only_gone || context_.gone[static_cast<size_t>(w)]))
      text += str(text.empty() ? "worker " : ", ", w);
  return text;
}

Clock::time_point Slot::since(Clock::time_point begun) const {
  return std::max(begun, Clock::time_point(Clock::duration(context_.patience_from.load())));
}

void Slot::look() {
  answer_pulls();  // in async mode, pulls no longer wait for a worker that has left
  const auto overdue = [this](Clock::time_point begun) {
    return Clock::now() - since(begun) > std::chrono::duration<double>(context_.timeout);
  };
  std::vector<WaitingPull> still;
  for (WaitingPull& p : pulls_) {
    std::string why, left;
    if (const auto round = rounds_.find(version_ + 1); context_.sync && round != rounds_.end()) {
      left = absent(round->second, true);
      if (!left.empty())
        why = str(left, " has left the job without a push for it");
      else if (overdue(round->second.begun))
        why = str("no push of ", absent(round->second, false), " within ", context_.timeout,
                  " s (MXLITE_PS_TIMEOUT)");
    }
    if (why.empty() && overdue(p.since))
      why = str(ready_ ? "the pushes before it have not arrived within "
                       : "no worker has initialized it within ",
                context_.timeout, " s (MXLITE_PS_TIMEOUT)");
    if (why.empty()) {
      still.push_back(std::move(p));
      continue;
    }
    const std::string text = str("pull of ", name(), ", step ", version_ + 1, ": ", why);
    p.answer(error_reply(ErrorKind::kCommunicator, text));
    if (left.empty()) context_.fail_job(text);
  }
  pulls_ = std::move(still);
  update_waits();
}

void Slot::get_states(const Answer& answer) {
  MX_CHECK_KIND(ready_, ErrorKind::kValue, "init must be called for ", name(), " first");
  FrameWriter w;
  w.number(weight_.updates);
  w.number(uint8_t{weight_.master.memory != nullptr});
  w.number(static_cast<uint8_t>(weight_.exact()));
  w.number(static_cast<uint32_t>(weight_.states.size()));
  std::vector<const OwnBuffer*> arrays;
  if (weight_.master.memory) arrays.push_back(&weight_.master);
  for (const OwnBuffer& state : weight_.states) arrays.push_back(&state);
  size_t bytes = 0;
  for (const OwnBuffer* array : arrays) bytes += array->bytes;
  MX_CHECK_KIND(bytes <= kMostData, ErrorKind::kNotSupported, name(),
                ": the states of one part must have at most ", kMostData, " bytes, got ", bytes);
  const OwnBuffer all = OwnBuffer::allocate(bytes);
  size_t at = 0;
  for (const OwnBuffer* array : arrays) {
    std::memcpy(all.data() + at, array->data(), array->bytes);
    at += array->bytes;
  }
  answer({{}, w.take(), all.shared()});
}

void Slot::set_states(const Body& body, const Buffer& data, const Answer& answer) {
  MX_CHECK_KIND(ready_, ErrorKind::kValue, "init must be called for ", name(), " first");
  FrameReader r(body, kFrameBody);
  const auto updates = r.number<uint64_t>();
  const bool master = r.number<uint8_t>() != 0;
  const auto exact = static_cast<DType>(r.number<uint8_t>());
  const auto count = r.number<uint32_t>();
  const bool fits = exact == (master ? DType::kFloat32 : weight_.dtype) && count <= 8 &&
                    (!master || is_half(weight_.dtype));
  const size_t each = fits ? static_cast<size_t>(weight_.count) * dtype_size(exact) : 0;
  MX_CHECK(fits && data.bytes == each * (count + (master ? 1 : 0)),
           "load_optimizer_states: ", name(),
           ": the states must have the shape and dtype of this array");
  std::vector<OwnBuffer> arrays;
  for (size_t at = 0; arrays.size() < count + (master ? 1u : 0u); at += each) {
    arrays.push_back(OwnBuffer::allocate(each));
    if (each > 0) std::memcpy(arrays.back().data(), data.data + at, each);
  }
  weight_.updates = updates;
  weight_.master = {};
  if (master) {
    weight_.master = arrays.front();
    arrays.erase(arrays.begin());
  }
  weight_.states = std::move(arrays);
  save();
  answer({});
}

}  // namespace mxlite::server
