// Copies between arrays. Transfers between devices need contiguous memory of one dtype, so strides
// and dtypes are converted before the transfer on the source's device, or after it on the
// destination's device.
#include "cpp/core/host_memory.h"
#include "cpp/core/threads.h"
#include "cpp/ndarray/copy.h"
#include "cpp/ops/invoke.h"

namespace mxlite {
namespace {

constexpr size_t kInlineBytes = 64 << 10;  // same limit as in invoke.cc

bool on_gpu(const NDArray& a) { return !is_host_memory(a.device()); }

// Copies between any strides and dtypes on one device.
class StridedCopyTask final : public engine::Task {
 public:
  StridedCopyTask(const NDArray& src, const NDArray& dst)
      : Task("_copyto"),
        shape_(src.shape()),
        src_{nullptr, src.dtype(), src.strides()},
        dst_{nullptr, dst.dtype(), dst.strides()},
        held_{src.place(), dst.place()} {}
  void run() override {
    src_.data = held_[0].data();
    dst_.data = held_[1].data();
    if (Stream* stream = engine::current_stream())
      copy_strided_on(*stream, shape_, src_, dst_);
    else
      copy_strided(shape_, src_, dst_, cpu_threads());
  }
  void release_operands() noexcept override { held_.clear(); }

 private:
  Shape shape_;
  StridedData src_, dst_;
  SmallVector<StoragePlace, 2> held_;
};

// Copies contiguous bytes between host and GPU or between GPUs.
class TransferTask final : public engine::Task {
 public:
  TransferTask(const NDArray& src, const NDArray& dst)
      : Task("_copyto"), bytes_(src.spec().bytes()), held_{src.place(), dst.place()} {}
  void run() override { engine::current_stream()->copy(held_[1].data(), held_[0].data(), bytes_); }
  void release_operands() noexcept override { held_.clear(); }

 private:
  size_t bytes_;
  SmallVector<StoragePlace, 2> held_;
};

void push_copy(engine::Task* task, const NDArray& src, const NDArray& dst,
               const engine::PushOptions& options) {
  engine::Var* reads[] = {&src.storage()->var()};
  engine::Var* writes[] = {&dst.storage()->var()};
  const bool whole = dst.spec().bytes() >= dst.storage()->bytes();
  engine::Access access{reads, {}, {}};
  (whole ? access.overwrites : access.updates) = writes;
  engine::Engine::get().push(engine::TaskRef(task), access, options);
}

void copy_on_device(const NDArray& src, const NDArray& dst) {
  engine::PushOptions options;
  if (on_gpu(dst)) {
    options.worker = engine::WorkerKind::kCompute;
    options.device = dst.device().index;
    options.keep_operands = src.storage()->is_foreign() || dst.storage()->is_foreign();
  } else {
    options.may_inline = dst.spec().bytes() <= kInlineBytes;
  }
  push_copy(new StridedCopyTask(src, dst), src, dst, options);
}

// Host-to-device copies use the copy-in stream of dst, other copies use the copy-out stream of src.
void transfer(const NDArray& src, const NDArray& dst) {
  const bool in = !on_gpu(src);
  push_copy(new TransferTask(src, dst), src, dst,
            {.worker = in ? engine::WorkerKind::kCopyIn : engine::WorkerKind::kCopyOut,
             .device = in ? dst.device().index : src.device().index});
}

void copy_between_devices(const NDArrayRef& src, const NDArrayRef& dst) {
  NDArrayRef from = src;
  // GPUs convert dtypes at memory speed, so they convert before or after the transfer. The host
  // only makes strided data contiguous.
  const bool convert_there = !on_gpu(*src) && src->dtype() != dst->dtype();
  if (!from->contiguous() || (from->dtype() != dst->dtype() && !convert_there)) {
    from =
        NDArray::empty({src->shape(), convert_there ? src->dtype() : dst->dtype()}, src->device());
    copy_on_device(*src, *from);
  }
  if (dst->contiguous() && !convert_there) return transfer(*from, *dst);
  const StreamKind first = on_gpu(*from) ? StreamKind::kCompute : StreamKind::kCopyIn;
  const NDArrayRef there = NDArray::empty(from->spec(), dst->device(), first);
  transfer(*from, *there);
  copy_on_device(*there, *dst);
}

}  // namespace

void copy_to(const NDArrayRef& src, const NDArrayRef& dst) {
  MX_CHECK_SHAPE(src->shape() == dst->shape(),
                 "copyto: the destination must have the shape of the source, ", src->shape(),
                 ", got ", dst->shape());
  if (src->size() == 0) return;
  if ((on_gpu(*src) || on_gpu(*dst)) && !(src->device() == dst->device()))
    return copy_between_devices(src, dst);
  NDArrayRef from = src;
  if (src->storage() == dst->storage()) {
    if (src->offset() == dst->offset() && src->strides() == dst->strides()) return;
    from = NDArray::empty(src->spec(), src->device());  // the two views may overlap
    copy_to(src, from);
  }
  copy_on_device(*from, *dst);
}

NDArrayRef copy_to_device(const NDArrayRef& src, Device device) {
  const bool copies_in = !is_host_memory(device) && !on_gpu(*src);
  NDArrayRef copy =
      NDArray::empty(src->spec(), device, copies_in ? StreamKind::kCopyIn : StreamKind::kCompute);
  copy->set_numpy(src->is_numpy());
  copy_to(src, copy);
  return copy;
}

NDArrayRef contiguous(const NDArrayRef& array) {
  if (array->contiguous()) return array;
  NDArrayRef copy = NDArray::empty(array->spec(), array->device());
  copy_to(array, copy);
  return copy;
}

NDArrayRef on_host(const NDArrayRef& array) {
  NDArrayRef host = is_host_memory(array->device()) ? contiguous(array) : copy_to_device(array, {});
  host->wait_to_read();
  return host;
}

}  // namespace mxlite
