#include "cpp/jobs/coded_bucket.h"

#include <array>
#include <cstring>

#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/jobs/collective_task.h"
#include "cpp/jobs/comm_thread.h"
#include "cpp/ops/invoke.h"

namespace mxlite::jobs {
namespace {

constexpr size_t kChunk = 1024;  // values decoded at a time, a multiple of values_per_word
                                 // of every compression type

NDArrayRef zeros(int64_t count, DType dtype) {
  NDArrayRef array = NDArray::empty({Shape{count}, dtype}, Device{});
  std::memset(array->data(), 0, array->spec().bytes());
  return array;
}

std::span<float> values_of(const NDArray& array) {
  return {static_cast<float*>(array.data()), static_cast<size_t>(array.size())};
}

// Decodes the values of all ranks and adds them in rank order. The coded words of rank r begin at
// `words + r * stride`.
void add_decoded(const store::Compression& how, const uint32_t* words, size_t stride, size_t ranks,
                 std::span<float> sum) {
  const auto per_word = static_cast<size_t>(store::values_per_word(how.type));
  std::array<float, kChunk> values;
  for (size_t first = 0; first < sum.size(); first += kChunk) {
    const std::span<float> some = sum.subspan(first, std::min(kChunk, sum.size() - first));
    const uint32_t* const begin = words + first / per_word;
    store::decompress(how, begin, some);
    for (size_t r = 1; r < ranks; ++r) {
      store::decompress(how, begin + r * stride, {values.data(), some.size()});
      for (size_t i = 0; i < some.size(); ++i) some[i] += values[i];
    }
  }
}

}  // namespace

CodedBucket::CodedBucket(std::span<const NDArrayRef> arrays, const std::string& type,
                         double threshold)
    : how_(store::make_compression(type, threshold)), received_(arrays.size()) {
  std::vector<Shape> shapes;
  for (const NDArrayRef& a : arrays) {
    specs_.push_back(a->spec());
    shapes.push_back(Shape{store::compressed_words(how_.type, a->size())});
  }
  words_.emplace(zeros(Bucket::elements_for(DType::kInt32, shapes), DType::kInt32), shapes);
}

bool CodedBucket::fits(std::span<const NDArrayRef> arrays) const {
  if (arrays.size() != specs_.size()) return false;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const NDArray* const array = arrays[i].get();
    if (array && (array->is_sparse() || array->spec() != specs_[i] || array->device() != Device{}))
      return false;
  }
  return true;
}

void CodedBucket::take(std::span<const NDArrayRef> arrays, std::span<const NDArrayRef> residuals) {
  MX_CHECK(
      fits(arrays) && fits(residuals),
      "CodedBucket.take: arrays must be float32 arrays on the CPU with the shapes of the bucket");
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!arrays[i]) continue;
    const NDArrayRef array = contiguous(arrays[i])->detached();
    const NDArrayRef residual = residuals[i]->detached();
    const NDArrayRef& part = words_->parts()[i];
    engine::Var* const reads[] = {&array->storage()->var()};
    engine::Var* const overwrites[] = {&part->storage()->var()};
    engine::Var* const updates[] = {&residual->storage()->var()};
    engine::Engine::get().push_fn(
        "compress_gradient", {reads, overwrites, updates}, {}, [how = how_, array, residual, part] {
          const ProfileScope profile("compress_gradient");
          store::compress(how, values_of(*array), values_of(*residual).data(),
                          static_cast<uint32_t*>(part->data()));
        });
  }
}

void CodedBucket::reduce(size_t first, size_t last, const std::string& name, int32_t set,
                         engine::Origin origin) {
  MX_CHECK(first < last && last <= specs_.size(),
           "CodedBucket.reduce: parts must be a range within the ", specs_.size(), " parts, got ",
           first, " to ", last);
  const NDArrayRef input = words_->range(first, last);
  const size_t ranks = CommThread::get().running_job()->process_sets().members(set).size();
  const NDArrayRef output =
      NDArray::empty({Shape{input->size() * static_cast<int64_t>(ranks)}, DType::kInt32}, Device{});
  Request terms;
  terms.name = name;
  terms.kind = CollectiveKind::kAllGather;
  terms.dtype = DType::kInt32;
  terms.set = set;
  terms.shape = {input->size()};
  terms.same_shapes = true;
  auto operation = make_ref<Operation>();
  operation->input = input;
  operation->output = output->detached();
  std::vector<engine::Var*> reads;
  for (const NDArrayRef& part : words_->parts()) reads.push_back(&part->storage()->var());
  engine::Var* const overwrites[] = {&output->storage()->var()};
  const auto begin_of = [&](size_t i) { return words_->range(i, i)->offset(); };
  for (size_t i = first; i < last; ++i)
    received_[i] = {output, static_cast<size_t>(begin_of(i) - begin_of(first)),
                    static_cast<size_t>(input->size()), ranks};
  start_bucket_call(std::move(operation), terms, origin, {reads, overwrites, {}});
}

void CodedBucket::give(std::span<const NDArrayRef> arrays) {
  MX_CHECK(
      fits(arrays),
      "CodedBucket.give: arrays must be float32 arrays on the CPU with the shapes of the bucket");
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (!arrays[i]) continue;
    const NDArrayRef array = arrays[i]->detached();
    MX_CHECK(received_[i].words && array->contiguous(),
             "CodedBucket.give: arrays must be contiguous, and reduce must be called before");
    const Received received = received_[i];
    engine::Var* const reads[] = {&received.words->storage()->var()};
    engine::Var* const target[] = {&array->storage()->var()};
    const bool whole = array->spec().bytes() >= array->storage()->bytes();
    engine::Access access{reads, {}, {}};
    (whole ? access.overwrites : access.updates) = target;
    engine::Engine::get().push_fn("add_gradients", access, {}, [how = how_, received, array] {
      const ProfileScope profile("add_gradients");
      const auto* words = static_cast<const uint32_t*>(received.words->data());
      add_decoded(how, words + received.begin, received.stride, received.ranks, values_of(*array));
    });
  }
}

}  // namespace mxlite::jobs
