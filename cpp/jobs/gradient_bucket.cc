#include "cpp/jobs/gradient_bucket.h"

#include "cpp/base/error.h"
#include "cpp/jobs/collective_task.h"
#include "cpp/kvstore/comm/device_reduce.h"
#include "cpp/ops/invoke.h"

namespace mxlite::jobs {
namespace {

bool lies_in(const NDArray& array, const NDArray& part) {
  return array.storage() == part.storage() && array.contiguous() && array.offset() == 0 &&
         array.spec() == part.spec();
}

// Copies an array to newly allocated memory if its memory lies in `part`.
void move_out(const NDArrayRef& array, const NDArrayRef& part) {
  if (array->use_count() == 1 || !lies_in(*array, *part)) return;
  const NDArrayRef own = NDArray::empty(part->spec(), part->device());
  copy_to(part, own);
  array->assign_handle(*own);
}

// Returns whether the array's handle may be changed to use the memory of its part. The handle must
// not be changed if the array uses foreign memory, is a part of a larger array or has views. Views
// would keep the old memory. Tasks in flight may still use the old memory, because the copy into
// the part runs after the tasks that write the array.
bool may_move(const NDArray& array, const NDArray& part) {
  const Storage& storage = *array.storage();
  return array.spec() == part.spec() && array.device() == part.device() && array.contiguous() &&
         array.offset() == 0 && storage.bytes() <= array.spec().bytes() && !storage.is_foreign() &&
         storage.num_arrays() == 1;
}

}  // namespace

std::vector<Shape> shapes_of(std::span<const NDArrayRef> arrays) {
  std::vector<Shape> shapes;
  for (const NDArrayRef& a : arrays) shapes.push_back(a->shape());
  return shapes;
}

GradientBucket::GradientBucket(std::span<const NDArrayRef> arrays, const NDArrayRef& memory,
                               const NDArrayRef& sums)
    : given_(memory, shapes_of(arrays)), owners_(arrays.size()) {
  if (sums != memory) sums_.emplace(sums, shapes_of(arrays));
  for (const NDArrayRef& a : arrays) kinds_.emplace_back(a->spec(), a->device());
}

bool GradientBucket::fits(std::span<const NDArrayRef> arrays) const {
  if (arrays.size() != kinds_.size()) return false;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [spec, device] = kinds_[i];
    const NDArray* const array = arrays[i].get();
    if (array && (array->is_sparse() || array->spec() != spec || array->device() != device))
      return false;
  }
  return true;
}

void GradientBucket::take(std::span<const NDArrayRef> arrays) {
  MX_CHECK(fits(arrays), "GradientBucket.take: arrays must have the shapes of the bucket");
  for (size_t i = 0; i < arrays.size(); ++i) {
    const NDArrayRef& array = arrays[i];
    const NDArrayRef& part = given_.parts()[i];
    NDArrayRef& owner = owners_[i];
    if (!array || lies_in(*array, *part)) continue;
    const bool moves = may_move(*array, *part);
    if (owner && owner != array) move_out(std::exchange(owner, nullptr), part);
    copy_to(array, part);
    if (!moves) continue;
    array->assign_handle(*part);
    owner = array;
  }
}

void GradientBucket::reduce(size_t first, size_t last, const std::string& name, int32_t set,
                            double prescale, engine::Origin origin) const {
  MX_CHECK(first < last && last <= owners_.size(),
           "GradientBucket.reduce: parts must be a range within the ", owners_.size(),
           " parts, got ", first, " to ", last);
  const NDArrayRef input = given_.range(first, last);
  if (input->size() == 0) return;
  Request terms;
  terms.name = name;
  terms.dtype = input->dtype();
  terms.set = set;
  terms.device = gpu_number(input->device());
  terms.prescale = prescale;
  terms.shape = {input->size()};
  auto operation = make_ref<Operation>();
  operation->input = input;
  operation->output = sums_ ? sums_->range(first, last) : input;
  // A collective may move the pages of the whole bucket, so other tasks must not write any part of
  // the bucket meanwhile.
  std::vector<engine::Var*> reads, overwrites, updates;
  for (size_t i = 0; i < owners_.size(); ++i) {
    engine::Var* const given = &parts()[i]->storage()->var();
    engine::Var* const sum = &sums()[i]->storage()->var();
    const bool chosen = i >= first && i < last;
    if (!sums_) {
      (chosen ? updates : reads).push_back(given);
    } else {
      reads.push_back(given);
      (chosen ? overwrites : reads).push_back(sum);
    }
  }
  start_bucket_call(std::move(operation), terms, origin, {reads, overwrites, updates});
}

void GradientBucket::sum_on_devices(std::span<const GradientBucket* const> buckets, size_t first,
                                    size_t last) {
  std::vector<DeviceOperand> operands;
  std::vector<engine::Var*> reads, overwrites, updates;
  for (const GradientBucket* bucket : buckets) {
    MX_CHECK(first < last && last <= bucket->owners_.size(),
             "GradientBucket.sum_on_devices: parts must be a range within the ",
             bucket->owners_.size(), " parts, got ", first, " to ", last);
    const NDArrayRef input = bucket->given_.range(first, last);
    operands.push_back({input, bucket->sums_ ? bucket->sums_->range(first, last) : input});
    for (size_t i = first; i < last; ++i) {
      engine::Var* const given = &bucket->parts()[i]->storage()->var();
      if (!bucket->sums_) {
        updates.push_back(given);
      } else {
        reads.push_back(given);
        overwrites.push_back(&bucket->sums()[i]->storage()->var());
      }
    }
  }
  all_reduce_on_devices(std::move(operands), ReduceOp::kSum, {reads, overwrites, updates});
}

void GradientBucket::give(std::span<const NDArrayRef> arrays) const {
  MX_CHECK(arrays.size() == owners_.size(),
           "GradientBucket.give: the number of arrays must equal the number of parts, ",
           owners_.size(), ", got ", arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i)
    if (arrays[i] && !lies_in(*arrays[i], *sums()[i])) copy_to(sums()[i], arrays[i]);
}

}  // namespace mxlite::jobs
