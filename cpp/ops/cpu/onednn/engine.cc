#include "cpp/ops/cpu/onednn/engine.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "cpp/base/small_vector.h"
#include "cpp/core/openmp.h"
#include "cpp/core/parallel.h"
#include "cpp/core/subnormals.h"
#include "cpp/core/threads.h"
#include "cpp/ops/dispatch_line.h"

namespace mxlite::onednn {
namespace {

constexpr size_t kAlign = 64;
size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

bool probe(dnnl::memory::data_type type) {
  using tag = dnnl::memory::format_tag;
  apply_thread_count(0);
  const Desc data({2, 16, 8, 8}, type, tag::any), weight({16, 16, 3, 3}, type, tag::any);
  const dnnl::convolution_forward::primitive_desc pd(
      engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, data,
      weight, data, {1, 1}, {1, 1}, {1, 1}, user_scratchpad(), /*allow_empty=*/true);
  return pd.get(true) && !std::string(pd.impl_info_str()).starts_with("ref");
}

}  // namespace

const dnnl::engine& engine() {
  static const auto* const cpu = [] {
    // Executables own their primitives, so oneDNN's cache only shares primitives between equal
    // layers. The default size, 1024, would keep 50 MiB of unused primitives.
    constexpr int kSharedPrimitives = 128;
    dnnl::set_primitive_cache_capacity(kSharedPrimitives);
    const auto* const function = reinterpret_cast<const void*>(&dnnl_engine_create);
    print_dispatch("oneDNN", "threads of mxlite", openmp::replace_libgomp(function));
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();  // leaked, because worker threads may outlive static destructors
  return *cpu;
}

void apply_thread_count(double work) { openmp::set_num_threads(threads_for(work)); }

dnnl::stream& stream() {
  static thread_local dnnl::stream stream(engine());
  return stream;
}

void throw_dnnl(const char* what, const dnnl::error& e) {
  if (e.status == dnnl_out_of_memory)
    fail(ErrorKind::kOutOfMemory, what, ": oneDNN is out of memory (", e.message, ")");
  fail(ErrorKind::kError, what, ": oneDNN: ", e.message, " (status ", static_cast<int>(e.status),
       ")");
}

dnnl::memory::data_type find_data_type(DType dtype) {
  using type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::kFloat32:
      return type::f32;
    case DType::kBFloat16:
      return type::bf16;
    case DType::kFloat16:
      return type::f16;
    case DType::kInt32:
      return type::s32;
    case DType::kInt8:
      return type::s8;
    case DType::kUInt8:
      return type::u8;
    default:
      return type::undef;
  }
}

dnnl::memory::data_type data_type(DType dtype) {
  const dnnl::memory::data_type type = find_data_type(dtype);
  MX_CHECK_DTYPE(type != dnnl::memory::data_type::undef, "oneDNN has no data type for ", dtype);
  return type;
}

bool computes_in(DType dtype) {
  if (dtype == DType::kFloat32) return true;
  if (dtype == DType::kBFloat16) {
    static const bool able = [] {
      const bool fast = probe(dnnl::memory::data_type::bf16);
      if (!fast)
        std::fputs(
            "mxlite: this processor has no bfloat16 kernels (AVX-512 needed); bfloat16 "
            "layers convert to float32 and back, which takes longer than float32 itself\n",
            stderr);
      return fast;
    }();
    return able;
  }
  if (dtype == DType::kFloat16) {
    static const bool able = probe(dnnl::memory::data_type::f16);
    return able;
  }
  return false;
}

Dims dims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

Desc strided_desc(const Dims& dims, dnnl::memory::data_type type, const Dims& strides) {
  return Desc(dims, type, strides);
}

Desc plain_desc(const Shape& shape, DType dtype) {
  if (shape.ndim() == 0) return Desc({1}, data_type(dtype), Dims{1});
  return Desc(dims(shape), data_type(dtype), dims(contiguous_strides(shape)));
}

Desc channels_last_desc(const Shape& shape, DType dtype) {
  const Strides strides = contiguous_strides(shape);
  Dims size = dims(shape), step = dims(strides);
  std::rotate(size.begin() + 1, size.end() - 1, size.end());
  std::rotate(step.begin() + 1, step.end() - 1, step.end());
  return Desc(size, data_type(dtype), step);
}

Desc any_desc(const Desc& like) {
  return Desc(like.get_dims(), like.get_data_type(), dnnl::memory::format_tag::any);
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// ---- Primitive -------------------------------------------------------------------------------

// Uses the descriptor that the primitive owns, because a copy takes up to 40 KiB.
Primitive::Primitive(const dnnl::primitive_desc_base& pd)
    : primitive_(pd.get()),
      scratch_bytes_(pd.scratchpad_desc().get_size()),
      threads_(openmp::get_max_threads()) {
  pd_.reset(const_cast<dnnl_primitive_desc_t>(primitive_.get_primitive_desc()), /*weak=*/true);
}

Desc Primitive::desc(int which) const { return pd_.query_md(dnnl::query::exec_arg_md, which); }

void Primitive::run(std::span<const Arg> args, void* scratch) const {
  const FlushSubnormals flush;
  // Uses the C interface, because the C++ interface builds a map and a shared pointer per argument
  // on every call.
  SmallVector<dnnl_exec_arg_t, 8> bound;
  struct Release {
    SmallVector<dnnl_exec_arg_t, 8>& bound;
    ~Release() {
      for (const auto& b : bound) dnnl_memory_destroy(b.memory);
    }
  } release{bound};
  const auto bind = [&](int which, const void* data, const Desc* desc = nullptr) {
    dnnl_memory_t memory = nullptr;
    const const_dnnl_memory_desc_t own =
        desc ? desc->get() : dnnl_primitive_desc_query_md(pd_.get(), dnnl_query_exec_arg_md, which);
    dnnl::error::wrap_c_api(
        dnnl_memory_create(&memory, own, engine().get(), const_cast<void*>(data)),
        "could not create a memory object");
    bound.push_back({which, memory});
  };
  guarded(pd_.impl_info_str(), [&] {
    for (const Arg& a : args)
      if (a.data) bind(a.which, a.data, a.desc);
    if (scratch_bytes_) bind(DNNL_ARG_SCRATCHPAD, scratch);
    const LibraryThreads threads(threads_);
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(),
                                                   static_cast<int>(bound.size()), bound.data()),
                            "could not execute a primitive");
  });
}

Primitive make_reorder(const Desc& from, const Desc& to) {
  apply_thread_count(memory_work(from));
  return Primitive(dnnl::reorder::primitive_desc(engine(), from, engine(), to, user_scratchpad()));
}

// ---- PrimitiveCall ---------------------------------------------------------------------------

PrimitiveCall::PrimitiveCall(const dnnl::primitive_desc_base& pd,
                             std::initializer_list<Operand> operands)
    : PrimitiveCall(pd, std::span<const Operand>(operands.begin(), operands.size())) {}

PrimitiveCall::PrimitiveCall(const dnnl::primitive_desc_base& pd, std::span<const Operand> operands)
    : primitive_(pd) {
  size_t shared = primitive_.scratch_bytes();
  for (const Operand& o : operands) {
    const Desc own = primitive_.desc(o.which);
    if (own == o.user) continue;
    Primitive reorder = o.output ? make_reorder(own, o.user) : make_reorder(o.user, own);
    shared = std::max(shared, reorder.scratch_bytes());
    moved_.push_back({o.which, o.output, std::move(reorder), shared_offset_});
    shared_offset_ += aligned(own.get_size());
  }
  scratch_bytes_ = shared_offset_ + shared;
}

void PrimitiveCall::run(std::span<const Arg> args, void* scratch) const {
  SmallVector<Arg, 8> own(args);
  std::byte* const base = static_cast<std::byte*>(scratch);
  for (const Moved& m : moved_)
    for (Arg& a : own)
      if (a.which == m.which) {
        std::byte* const packed = base + m.offset;
        if (!m.output)
          m.reorder.run({{DNNL_ARG_FROM, a.data}, {DNNL_ARG_TO, packed}}, base + shared_offset_);
        a.data = packed;
      }
  primitive_.run(own, base + shared_offset_);
  for (const Moved& m : moved_)
    if (m.output)
      for (const Arg& a : args)
        if (a.which == m.which)
          m.reorder.run({{DNNL_ARG_FROM, base + m.offset}, {DNNL_ARG_TO, a.data}},
                        base + shared_offset_);
}

}  // namespace mxlite::onednn
