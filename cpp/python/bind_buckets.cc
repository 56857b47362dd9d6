// Buckets of gradients for mxlite.comm.buckets, which decides what a bucket holds and when it is
// reduced.
#include <pybind11/stl.h>

#include "cpp/autograd/gradient_order.h"
#include "cpp/kvstore/comm/bucket.h"
#include "cpp/kvstore/comm/device_reduce.h"
#include "cpp/kvstore/horovod/runtime.h"
#include "cpp/ops/invoke.h"
#include "cpp/python/bind.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"
#include "cpp/python/py_comm.h"

namespace mxlite::python {

namespace {

using horovod::Runtime;

// Returns null for None.
NDArrayRef array_or_null(py::handle item) {
  return item.is_none() ? nullptr : any_array_of(item, "GradientBucket");
}

std::vector<Shape> shapes_of(const std::vector<NDArrayRef>& arrays) {
  std::vector<Shape> shapes;
  for (const NDArrayRef& a : arrays) shapes.push_back(a->shape());
  return shapes;
}

// The arrays of one bucket, by position. An array lies in its part, or is copied into it; a part
// belongs to the array that came last.
class GradientBucket {
 public:
  // memory and sums: vectors of bucket_elements(...) zeros that no task uses, the same vector if
  // sums replace what was summed.
  GradientBucket(const std::vector<NDArrayRef>& arrays, const NDArrayRef& memory,
                 const NDArrayRef& sums)
      : given_(memory, shapes_of(arrays)), owners_(arrays.size()) {
    if (sums != memory) sums_.emplace(sums, shapes_of(arrays));
    for (const NDArrayRef& a : arrays) kinds_.emplace_back(a->spec(), a->device());
  }

  bool fits(const py::list& arrays) const {
    if (arrays.size() != kinds_.size()) return false;
    for (size_t i = 0; const py::handle item : arrays) {
      const NDArrayRef array = array_or_null(item);
      const auto& [spec, device] = kinds_[i++];
      if (array && (array->is_sparse() || array->spec() != spec || array->device() != device))
        return false;
    }
    return true;
  }

  void take(const py::list& arrays) {
    MX_CHECK(fits(arrays), "GradientBucket.take: arrays that do not fit the bucket");
    for (size_t i = 0; const py::handle item : arrays) {
      const NDArrayRef array = array_or_null(item);
      const NDArrayRef& part = given_.parts()[i];
      NDArrayRef& owner = owners_[i++];
      if (!array || lies_in(*array, *part)) continue;
      const bool moves = may_move(*array, *part);
      if (owner && owner != array) move_out(std::exchange(owner, nullptr), part);
      copy_to(array, part);
      if (!moves) continue;
      array->assign_handle(*part);
      owner = array;
    }
  }

  void reduce(size_t first, size_t last, const std::string& name, int32_t set, double prescale) {
    MX_CHECK(first < last && last <= owners_.size(), "GradientBucket.reduce: parts ", first, " to ",
             last, " of ", owners_.size(), " given");
    const NDArrayRef input = given_.range(first, last);
    if (input->size() == 0) return;
    Request terms;
    terms.name = name;
    terms.dtype = input->dtype();
    terms.set = set;
    terms.device = gpu_number(input->device());
    terms.prescale = prescale;
    terms.shape = {input->size()};
    auto operation = make_ref<NamedOperation>();
    operation->input = input;
    operation->output = sums_ ? sums_->range(first, last) : input;
    // A collective may move the pages of a whole bucket: nothing may write the other parts then.
    std::vector<engine::Var*> reads, overwrites, updates;
    const std::vector<NDArrayRef>& sums = this->sums();
    for (size_t i = 0; i < owners_.size(); ++i) {
      engine::Var* const given = &given_.parts()[i]->storage()->var();
      engine::Var* const sum = &sums[i]->storage()->var();
      const bool chosen = i >= first && i < last;
      if (!sums_) {
        (chosen ? updates : reads).push_back(given);
      } else {
        reads.push_back(given);
        (chosen ? overwrites : reads).push_back(sum);
      }
    }
    push_bucket_call(std::move(operation), terms, {reads, overwrites, updates});
  }

  // Sums the parts first to last - 1 of the buckets of several GPUs, one bucket for each.
  static void sum_on_devices(const std::vector<GradientBucket*>& buckets, size_t first,
                             size_t last) {
    std::vector<DeviceOperand> operands;
    std::vector<engine::Var*> reads, overwrites, updates;
    for (const GradientBucket* bucket : buckets) {
      MX_CHECK(first < last && last <= bucket->owners_.size(),
               "GradientBucket.sum_on_devices: parts ", first, " to ", last, " of ",
               bucket->owners_.size(), " given");
      const NDArrayRef input = bucket->given_.range(first, last);
      operands.push_back({input, bucket->sums_ ? bucket->sums_->range(first, last) : input});
      for (size_t i = first; i < last; ++i) {
        engine::Var* const given = &bucket->given_.parts()[i]->storage()->var();
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

  void give(const py::list& arrays) const {
    MX_CHECK(arrays.size() == owners_.size(), "GradientBucket.give: ", arrays.size(),
             " arrays given for ", owners_.size(), " parts");
    for (size_t i = 0; const py::handle item : arrays) {
      const NDArrayRef array = array_or_null(item);
      const NDArrayRef& sum = sums()[i++];
      if (array && !lies_in(*array, *sum)) copy_to(sum, array);
    }
  }

  const std::vector<NDArrayRef>& parts() const { return given_.parts(); }
  const std::vector<NDArrayRef>& sums() const { return sums_ ? sums_->parts() : given_.parts(); }

 private:
  static bool lies_in(const NDArray& array, const NDArray& part) {
    return array.storage() == part.storage() && array.contiguous() && array.offset() == 0 &&
           array.spec() == part.spec();
  }
  // Gives an array memory of its own again.
  static void move_out(const NDArrayRef& array, const NDArrayRef& part) {
    if (array->use_count() == 1 || !lies_in(*array, *part)) return;
    const NDArrayRef own = NDArray::empty(part->spec(), part->device());
    copy_to(part, own);
    array->assign_handle(*own);
  }
  // Returns whether the handle of an array may point to its part from now on. Memory of others, and
  // arrays inside larger ones, stay where their owners expect them. So does an array with views,
  // because they would keep the old memory. Tasks in flight may use the old memory: the copy into
  // the part follows those that write it.
  static bool may_move(const NDArray& array, const NDArray& part) {
    const Storage& storage = *array.storage();
    return array.spec() == part.spec() && array.device() == part.device() && array.contiguous() &&
           array.offset() == 0 && storage.bytes() <= array.spec().bytes() &&
           !storage.is_foreign() && storage.num_arrays() == 1;
  }

  Bucket given_;
  std::optional<Bucket> sums_;
  std::vector<std::pair<TensorSpec, Device>> kinds_;  // arrays that fit have these
  std::vector<NDArrayRef> owners_;                    // by part: the array that lies in it
};

}  // namespace

void push_bucket_call(OperationRef operation, const Request& terms, const engine::Access& access) {
  auto session = Runtime::get().running_session();
  operation->is_bucket = true;
  operation->asked = session->share(terms);
  operation->channel.set = terms.set;
  operation->number = session->number_calls(1, operation->channel);
  std::vector<OperationRef> operations = {std::move(operation)};
  auto task = make_ref<CollectiveTask>(horovod::collective_name(terms.kind), current_origin(),
                                       std::move(operations), std::move(session));
  engine::Engine::get().push(std::move(task), access, {.may_inline = true});
}

void bind_buckets(py::module_& m) {
  py::class_<GradientBucket>(m, "GradientBucket", "Gradients that one collective sums.")
      .def(py::init<const std::vector<NDArrayRef>&, const NDArrayRef&, const NDArrayRef&>(),
           py::arg("arrays"), py::arg("memory"), py::arg("sums"))
      .def("fits", &GradientBucket::fits, py::arg("arrays"),
           "Whether the arrays, or None, have the shapes, dtypes and devices of the bucket.")
      .def("take", &GradientBucket::take, py::arg("arrays"),
           "Move arrays into their parts, and copy those that cannot be moved; None: leave out.")
      .def("reduce", &GradientBucket::reduce, py::arg("first"), py::arg("last"), py::arg("name"),
           py::arg("set"), py::arg("prescale"),
           "Sum the parts first to last - 1 over the ranks of a process set, in the background.")
      .def_static("sum_on_devices", &GradientBucket::sum_on_devices, py::arg("buckets"),
                  py::arg("first"), py::arg("last"),
                  "Sum the parts first to last - 1 of buckets on different GPUs of this process, "
                  "one of each, in one call of NCCL and in the background.")
      .def("give", &GradientBucket::give, py::arg("arrays"),
           "Copy sums to those arrays that do not lie in the bucket.")
      .def_property_readonly("parts", &GradientBucket::parts)
      .def_property_readonly("sums", &GradientBucket::sums);
  m.def(
      "bucket_elements",
      [](const std::vector<NDArrayRef>& arrays, const NDArrayRef& like) {
        return Bucket::elements_for(like->dtype(), shapes_of(arrays));
      },
      py::arg("arrays"), py::arg("like"),
      "The number of elements of a bucket of these arrays in the dtype of `like`.");
  m.def("note_gradient_order", &autograd::set_notes_order, py::arg("on"),
        "Whether backward notes the order in which it makes gradients.");
  m.def(
      "gradient_positions",
      [](const std::vector<NDArrayRef>& gradients) {
        std::vector<uint64_t> found;
        for (const NDArrayRef& g : gradients) found.push_back(autograd::gradient_position(*g));
        return found;
      },
      py::arg("gradients"),
      "A number for each gradient: higher ones were made later, 0 is not known.");
}

}  // namespace mxlite::python
