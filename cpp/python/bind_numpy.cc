// Conversion from and to NumPy and DLPack.
#include <pybind11/numpy.h>

#include "cpp/core/accelerator.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/engine/write_line.h"
#include "cpp/engine/written.h"
#include "cpp/graph/trace.h"
#include "cpp/ndarray/copy.h"
#include "cpp/ops/invoke.h"
#include "cpp/python/bind.h"
#include "cpp/python/convert.h"
#include "cpp/python/dlpack.h"
#include "cpp/python/gil.h"
#include "cpp/python/op_object.h"
#include "cpp/python/py_array.h"

namespace mxlite::python {
namespace {

DType dtype_of(const py::array& a) {
  if (const auto dtype = dtype_from_python(a.dtype().ptr())) return *dtype;
  fail(ErrorKind::kDType, "array: values must be real numbers or bools, got dtype ",
       std::string(py::str(a.dtype())));
}

bool is_native(const py::array& a) { return a.dtype().attr("isnative").cast<bool>(); }
bool is_aligned(const py::array& a) {
  return (a.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) != 0;
}
Strides strides_in_elements(const py::array& a) {
  Strides s;
  for (py::ssize_t i = 0; i < a.ndim(); ++i) s.push_back(a.strides(i) / a.itemsize());
  return s;
}
bool has_whole_strides(const py::array& a) {
  for (py::ssize_t i = 0; i < a.ndim(); ++i)
    if (a.strides(i) % a.itemsize() != 0) return false;
  return true;
}
// Returns the same values in a form that C++ can read. It has native byte order, and addresses and
// strides that are multiples of the element size. Must be called before values are copied from
// NumPy.
py::array readable(const py::array& given) {
  if (is_native(given) && is_aligned(given) && has_whole_strides(given)) return given;
  const py::object native = given.dtype().attr("newbyteorder")("=");
  return given.attr("astype")(native, "C").cast<py::array>();
}
Shape shape_of(const py::array& a) {
  Shape s;
  for (py::ssize_t i = 0; i < a.ndim(); ++i) s.push_back(a.shape(i));
  return s;
}

// Returns whether the address range of the source's values overlaps the target's memory.
bool may_overlap(const py::array& source, const NDArray& target) {
  const auto* first = static_cast<const std::byte*>(source.data());
  const std::byte* last = first + source.itemsize();
  for (py::ssize_t i = 0; i < source.ndim(); ++i) {
    if (source.shape(i) == 0) return false;
    const py::ssize_t reach = (source.shape(i) - 1) * source.strides(i);
    (reach < 0 ? first : last) += reach;
  }
  const auto* begin = static_cast<const std::byte*>(target.storage()->data());
  return first < begin + target.storage()->bytes() && begin < last;
}
// Returns `source`. If writing to the target could change `source`, returns a copy, like assignment
// in NumPy.
py::array apart_from(const NDArray& target, py::array source) {
  return may_overlap(source, target) ? source.attr("copy")().cast<py::array>() : source;
}

// Copies host data into an array that no task uses. May release the GIL while copying.
void fill_from_numpy(const NDArrayRef& target, const py::array& given) {
  const DType dtype = dtype_of(given);
  const py::array source = readable(given);
  MX_CHECK_SHAPE(shape_of(source) == target->shape(), "array: values of shape ", shape_of(source),
                 " cannot be written into shape ", target->shape());
  const StridedData src{const_cast<void*>(source.data()), dtype, strides_in_elements(source)};
  const StridedData dst{target->data(), target->dtype(), target->strides()};
  const GilRelease released;
  copy_strided(target->shape(), src, dst);
}

bool on_gpu(const NDArray& a) { return a.device().type == DeviceType::kCUDA; }

// Copies the values to pinned memory. The copy to the GPU is asynchronous, and the program may
// change NumPy's memory before that copy ends.
NDArrayRef staged(const py::array& source, DType dtype) {
  NDArrayRef array = NDArray::empty({shape_of(source), dtype}, {DeviceType::kPinned, 0});
  fill_from_numpy(array, source);
  return array;
}

NDArrayRef array_from_numpy(const py::array& source, py::object ctx, py::object dtype) {
  const DType d = dtype.is_none() ? dtype_of(source) : require_dtype(dtype, "array");
  const Device device = device_from_python(ctx);
  if (device.type == DeviceType::kCUDA) {
    require_accelerator("array", device.index);
    return copy_to_device(staged(source, d), device);
  }
  NDArrayRef array = NDArray::empty({shape_of(source), d}, device);
  fill_from_numpy(array, source);
  return array;
}

void write_from_numpy(const NDArrayRef& target, const py::array& source) {
  if (target->is_traced()) graph::Trace::fail_read(*target, "x[:] = NumPy array");
  const engine::WriteLine write_line(current_origin());
  if (on_gpu(*target)) {
    const NDArrayRef host = staged(source, target->dtype());
    MX_CHECK_SHAPE(host->shape() == target->shape(), "array: values of shape ", host->shape(),
                   " cannot be written into shape ", target->shape());
    return copy_to(host, target);
  }
  target->wait_to_write();
  fill_from_numpy(target, apart_from(*target, readable(source)));
  engine::Engine& engine = engine::Engine::get();
  engine::Var& var = target->storage()->var();
  if (target->spec().bytes() >= target->storage()->bytes())
    engine.host_wrote(var);
  else
    engine::host_wrote_part(engine, var);
}

// Copies a GPU array's values to the host memory `to`. No other thread may use this memory during
// the call.
void read_from_gpu(const NDArrayRef& source, void* to, DType dtype) {
  const StorageRef memory =
      Storage::wrap({}, to, static_cast<size_t>(source->size()) * dtype_size(dtype), [] {});
  const NDArrayRef host = NDArray::from_storage(memory, {source->shape(), dtype});
  copy_to(source, host);
  host->wait_to_read();
}

// Returns whether the array's type exists neither in NumPy nor in an installed package.
bool has_no_numpy_dtype(const NDArray& a) { return PyUnicode_Check(numpy_dtype(a.dtype())); }

py::array as_numpy(const NDArrayRef& a) {
  if (a->is_traced()) graph::Trace::fail_read(*a, "asnumpy");
  const ProfileScope profile("MXNDArraySyncCopyToCPU", ProfileKind::kApi);
  if (!on_gpu(*a)) a->wait_to_read();
  const DType as = has_no_numpy_dtype(*a) ? DType::kFloat32 : a->dtype();
  const py::dtype type = py::reinterpret_borrow<py::dtype>(numpy_dtype(as));
  std::vector<py::ssize_t> shape(a->shape().begin(), a->shape().end());
  py::array out(type, shape);
  if (on_gpu(*a)) {
    read_from_gpu(a, out.mutable_data(), as);
    return out;
  }
  const StridedData src{a->data(), a->dtype(), a->strides()};
  const StridedData dst{out.mutable_data(), as, contiguous_strides(a->shape())};
  const GilRelease released;
  copy_strided(a->shape(), src, dst);
  return out;
}

// Returns a read-only array on the same memory, or a copy of values that NumPy cannot read there.
// Must not outlive the call of the function that reads it, because later tasks may write.
py::array host_view(py::handle array) {
  const NDArrayRef& a = array_of(array.ptr());
  if (a->is_traced() || on_gpu(*a) || has_no_numpy_dtype(*a)) return as_numpy(a);
  a->wait_to_read();
  std::vector<py::ssize_t> strides;
  for (const int64_t stride : a->strides())
    strides.push_back(stride * static_cast<int64_t>(dtype_size(a->dtype())));
  const std::vector<py::ssize_t> shape(a->shape().begin(), a->shape().end());
  py::array view(py::reinterpret_borrow<py::dtype>(numpy_dtype(a->dtype())), shape, strides,
                 a->data(), array);
  py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return view;
}

// Shares the memory of a contiguous or strided NumPy array and keeps the array alive.
NDArrayRef from_numpy(py::array source) {
  const DType dtype = dtype_of(source);
  MX_CHECK_KIND(
      is_native(source), ErrorKind::kDType,
      "from_numpy: values must have the machine's byte order to share the memory, got dtype ",
      std::string(py::str(source.dtype())), "; copy with zero_copy=False");
  MX_CHECK(is_aligned(source) && has_whole_strides(source),
           "from_numpy: address and strides must be multiples of the element size; copy with "
           "zero_copy=False");
  Strides strides = strides_in_elements(source);
  const Shape shape = shape_of(source);
  for (int i = 0; i < shape.ndim(); ++i)
    MX_CHECK(strides[i] >= 0 || shape[i] <= 1,
             "from_numpy: strides must not be negative; copy the array first");
  PyObject* keep = source.release().ptr();
  const py::array held = py::reinterpret_borrow<py::array>(keep);
  size_t bytes = static_cast<size_t>(held.itemsize());
  for (int i = 0; i < shape.ndim(); ++i)
    bytes += static_cast<size_t>(std::max<int64_t>(shape[i] - 1, 0) * strides[i] * held.itemsize());
  StorageRef storage = Storage::wrap({}, const_cast<void*>(held.data()), bytes, [keep] {
    if (!may_take_gil()) return;
    const GilAcquire acquired;
    Py_DECREF(keep);
  });
  return NDArray::view_of(std::move(storage), {shape, dtype}, strides, 0);
}

template <class F, class... Extra>
void method(const char* name, F&& f, const Extra&... extra) {
  const py::handle cls(reinterpret_cast<PyObject*>(array_type));
  cls.attr(name) =
      py::cpp_function(std::forward<F>(f), py::name(name), py::is_method(cls), extra...);
}

}  // namespace

void bind_numpy(py::module_& m) {
  // pybind11 imports NumPy's functions under a lock on their first use. They are imported here to
  // avoid a deadlock: a signal handler or __del__ that runs during a later import would wait for
  // the lock.
  py::dtype::of<float>();
  method("asnumpy", &as_numpy,
         "Wait and copy into a NumPy array (bfloat16: ml_dtypes when installed, else float32).");
  method("_host_view", &host_view,
         "The values as read-only NumPy array on the same memory, or a copy where that is "
         "impossible;\nonly for functions that do not return it.");
  method("_write_numpy", &write_from_numpy, py::arg("source"), "Overwrite with NumPy values.");
  method(
      "__dlpack__",
      [](const NDArrayRef& a, const py::kwargs&) {
        if (a->is_traced()) graph::Trace::fail_read(*a, "__dlpack__");
        a->wait_to_read();
        return to_dlpack(a);
      },
      "DLPack capsule on the same memory.");
  method("__dlpack_device__", [](const NDArrayRef& a) {
    const auto [type, index] = dlpack_device(a->device());
    return py::make_tuple(type, index);
  });
  m.def("array_from_numpy", &array_from_numpy, py::arg("source"), py::arg("ctx") = py::none(),
        py::arg("dtype") = py::none(), "Copy of a NumPy array.");
  m.def("from_numpy", &from_numpy, py::arg("source"), "Array on a NumPy array's memory.");
  m.def("from_dlpack", &from_dlpack, py::arg("capsule"), "Array on a DLPack capsule's memory.");
}

}  // namespace mxlite::python
