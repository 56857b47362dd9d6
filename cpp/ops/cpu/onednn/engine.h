// The interface to oneDNN: engine, streams, descriptors, and primitives that any thread may run.
// Callers pass scratchpads (scratchpad_mode::user), because a primitive that owns its scratchpad
// may only run on the thread that created it.
#pragma once
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "cpp/core/threads.h"
#include "cpp/ops/kernel.h"

namespace mxlite::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

const dnnl::engine& engine();
// Returns the stream of the calling thread.
dnnl::stream& stream();

// Sets the number of threads of primitives that this thread creates, to suit `work` in nanoseconds
// on one thread (see threads_for). Must precede the creation of a primitive's descriptor.
void apply_thread_count(double work);
// Return the work of passes over memory, and of multiply-adds, in nanoseconds on one thread.
inline double memory_work(const Desc& d, double passes = 2) {
  return static_cast<double>(d.get_size()) * passes / 10;
}
inline double product_work(double count) { return count * kProductNanoseconds; }

[[noreturn]] void throw_dnnl(const char* what, const dnnl::error& e);
// Calls fn; an error of oneDNN becomes an Error in which `what` names the operator.
decltype(auto) guarded(const char* what, auto&& fn) {
  try {
    return fn();
  } catch (const dnnl::error& e) {
    throw_dnnl(what, e);
  }
}

// Returns oneDNN's name of a dtype, or undef if oneDNN does not have the type.
dnnl::memory::data_type find_data_type(DType dtype);
// Returns oneDNN's name of a dtype. Throws a dtype error if oneDNN does not have the type.
dnnl::memory::data_type data_type(DType dtype);
// Returns whether oneDNN has fast kernels for dtype on this processor: always for float32, for
// 16-bit floats if the processor has instructions for them or emulates them with AVX-512, and never
// for other types. Prints a line once if there are no fast kernels for bfloat16.
bool computes_in(DType dtype);

Dims dims(const Shape& shape);
Desc plain_desc(const Shape& shape, DType dtype);
inline Desc plain_desc(const TensorSpec& spec) { return plain_desc(spec.shape, spec.dtype); }
// Returns channels-last memory in oneDNN's order (N, C, spatial). `shape` is in the user's order.
Desc channels_last_desc(const Shape& shape, DType dtype);
// Returns a descriptor whose layout oneDNN chooses.
Desc any_desc(const Desc& like);
Desc strided_desc(const Dims& dims, dnnl::memory::data_type type, const Dims& strides);

// Returns the attributes that all primitives have.
dnnl::primitive_attr user_scratchpad();

struct Arg {
  int which;
  const void* data;
  // Null means the primitive's own descriptor. The primitive has none for the scales of int8.
  const Desc* desc = nullptr;
};

// A primitive and its descriptor. Immutable, and shared between threads.
class Primitive {
 public:
  Primitive() = default;
  explicit Primitive(const dnnl::primitive_desc_base& pd);
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  Desc desc(int which) const;  // returns a zero descriptor if the primitive has no such argument
  size_t scratch_bytes() const { return scratch_bytes_; }
  const char* name() const { return pd_.impl_info_str(); }  // name of the implementation
  // Returns when the primitive has run. `scratch` has scratch_bytes() bytes, 64-byte aligned.
  void run(std::span<const Arg> args, void* scratch) const;
  void run(std::initializer_list<Arg> args, void* scratch) const {
    run(std::span<const Arg>(args.begin(), args.size()), scratch);
  }

 private:
  dnnl::primitive_desc_base pd_;
  dnnl::primitive primitive_;
  size_t scratch_bytes_ = 0;
  int threads_ = 1;  // number of threads for which oneDNN has divided the work
};

Primitive make_reorder(const Desc& from, const Desc& to);

// A primitive on arrays in the user's layouts, with reorders before and after it where necessary.
class PrimitiveCall {
 public:
  struct Operand {
    int which;
    Desc user;
    bool output = false;
  };
  PrimitiveCall() = default;
  PrimitiveCall(const dnnl::primitive_desc_base& pd, std::initializer_list<Operand> operands);
  PrimitiveCall(const dnnl::primitive_desc_base& pd, std::span<const Operand> operands);
  size_t scratch_bytes() const { return scratch_bytes_; }
  const Primitive& primitive() const { return primitive_; }
  // Arguments that are not operands of the constructor are passed to the primitive without a
  // reorder.
  void run(std::span<const Arg> args, void* scratch) const;
  void run(KernelContext& ctx, std::initializer_list<Arg> args) const {
    run(std::span<const Arg>(args.begin(), args.size()), ctx.scratch(scratch_bytes_));
  }

 private:
  struct Moved {
    int which;
    bool output;
    Primitive reorder;
    size_t offset;  // offset of the reordered operand in scratch memory
  };
  Primitive primitive_;
  std::vector<Moved> moved_;
  size_t scratch_bytes_ = 0;
  size_t shared_offset_ = 0;  // offset of the scratchpad that the primitive and the reorders use in
                              // turn
};

}  // namespace mxlite::onednn
