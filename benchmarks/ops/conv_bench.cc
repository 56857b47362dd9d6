// Times every implementation that oneDNN offers for the convolutions of a network, in the layouts
// that it prefers, forced channels-last and forced into blocks of 16 channels (8 without AVX-512),
// and our Winograd kernel with weights transformed before and in the call.
//   conv_bench <network> <batch> <f32|bf16> [seconds per case]
// Prints a JSON object: one entry per convolution and candidate; weights are packed before, ReLU is
// fused, the best of the repetitions counts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "cpp/core/openmp.h"
#include "cpp/core/threads.h"
#include "cpp/ops/cpu/nn/winograd/winograd.h"
#include "cpp/ops/cpu/processor.h"

namespace {

using dnnl::memory;
using tag = memory::format_tag;

struct Conv {
  int in, size, out, kernel, stride, pad, count;
  int kernel_w = 0, pad_w = -1;  // 0, -1: as the height
  int group = 1;
};

// Input channels, input size, output channels, kernel, stride, pad, how often.
const std::map<std::string, std::vector<Conv>> kNetworks = {
    {"resnet50",
     {{3, 224, 64, 7, 2, 3, 1},    {64, 56, 64, 1, 1, 0, 1},     {64, 56, 64, 3, 1, 1, 3},
      {64, 56, 256, 1, 1, 0, 4},   {256, 56, 64, 1, 1, 0, 2},    {256, 56, 128, 1, 2, 0, 1},
      {256, 56, 512, 1, 2, 0, 1},  {128, 28, 128, 3, 1, 1, 4},   {128, 28, 512, 1, 1, 0, 4},
      {512, 28, 128, 1, 1, 0, 3},  {512, 28, 256, 1, 2, 0, 1},   {512, 28, 1024, 1, 2, 0, 1},
      {256, 14, 256, 3, 1, 1, 6},  {256, 14, 1024, 1, 1, 0, 6},  {1024, 14, 256, 1, 1, 0, 5},
      {1024, 14, 512, 1, 2, 0, 1}, {1024, 14, 2048, 1, 2, 0, 1}, {512, 7, 512, 3, 1, 1, 3},
      {512, 7, 2048, 1, 1, 0, 3},  {2048, 7, 512, 1, 1, 0, 2}}},
    {"vgg16",
     {{3, 224, 64, 3, 1, 1, 1},
      {64, 224, 64, 3, 1, 1, 1},
      {64, 112, 128, 3, 1, 1, 1},
      {128, 112, 128, 3, 1, 1, 1},
      {128, 56, 256, 3, 1, 1, 1},
      {256, 56, 256, 3, 1, 1, 2},
      {256, 28, 512, 3, 1, 1, 1},
      {512, 28, 512, 3, 1, 1, 2},
      {512, 14, 512, 3, 1, 1, 3}}},
    {"alexnet",
     {{3, 224, 64, 11, 4, 2, 1},
      {64, 27, 192, 5, 1, 2, 1},
      {192, 13, 384, 3, 1, 1, 1},
      {384, 13, 256, 3, 1, 1, 1},
      {256, 13, 256, 3, 1, 1, 1}}},
    {"inceptionv3", {{3, 299, 32, 3, 2, 0, 1},         {32, 149, 32, 3, 1, 0, 1},
                     {32, 147, 64, 3, 1, 1, 1},        {64, 73, 80, 1, 1, 0, 1},
                     {80, 73, 192, 3, 1, 0, 1},        {192, 35, 64, 1, 1, 0, 2},
                     {192, 35, 48, 1, 1, 0, 1},        {48, 35, 64, 5, 1, 2, 3},
                     {64, 35, 96, 3, 1, 1, 4},         {96, 35, 96, 3, 1, 1, 3},
                     {288, 35, 64, 1, 1, 0, 4},        {288, 35, 384, 3, 2, 0, 1},
                     {768, 17, 192, 1, 1, 0, 12},      {768, 17, 128, 1, 1, 0, 2},
                     {128, 17, 128, 1, 1, 0, 2, 7, 3}, {160, 17, 160, 1, 1, 0, 4, 7, 3},
                     {192, 17, 192, 1, 1, 0, 4, 7, 3}, {768, 17, 160, 1, 1, 0, 4},
                     {192, 17, 320, 3, 2, 0, 1},       {192, 17, 192, 3, 2, 0, 1},
                     {1280, 8, 320, 1, 1, 0, 1},       {1280, 8, 384, 1, 1, 0, 1},
                     {1280, 8, 448, 1, 1, 0, 1},       {448, 8, 384, 3, 1, 1, 2},
                     {384, 8, 384, 1, 1, 0, 8, 3, 1},  {2048, 8, 320, 1, 1, 0, 1},
                     {2048, 8, 384, 1, 1, 0, 1},       {2048, 8, 448, 1, 1, 0, 1},
                     {2048, 8, 192, 1, 1, 0, 1}}},
    {"mobilenet",
     {{32, 112, 32, 3, 1, 1, 1, 0, -1, 32},
      {64, 112, 64, 3, 2, 1, 1, 0, -1, 64},
      {128, 56, 128, 3, 1, 1, 1, 0, -1, 128},
      {512, 14, 512, 3, 1, 1, 5, 0, -1, 512}}},
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Best time of repetitions that fill `seconds`, at least three.
template <class F>
double best_of(double seconds, F&& run) {
  run();
  double best = 1e30;
  const double start = now();
  for (int runs = 0; runs < 3 || (now() - start < seconds && runs < 1000); ++runs) {
    const double t = now();
    run();
    best = std::min(best, now() - t);
  }
  return best;
}

void fill(const memory& m) {  // normal numbers: denormals would distort
  const size_t n = m.get_desc().get_size();
  void* p = m.get_data_handle();
  if (m.get_desc().get_data_type() == memory::data_type::f32)
    for (size_t i = 0; i < n / 4; ++i) static_cast<float*>(p)[i] = 0.01f * (i % 7) - 0.02f;
  else
    for (size_t i = 0; i < n / 2; ++i) static_cast<uint16_t*>(p)[i] = 0x3c00 + i % 64;
}

const char* layout_name(const memory::desc& md) {
  if (md.get_inner_nblks() == 0) {
    const auto s = md.get_strides();
    return s[1] == 1 ? "nhwc" : "nchw";
  }
  return md.get_inner_blks()[0] == 16  ? "nChw16c"
         : md.get_inner_blks()[0] == 8 ? "nChw8c"
                                       : "other";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || !kNetworks.contains(argv[1])) {
    std::fprintf(stderr, "usage: conv_bench <network> <batch> <f32|bf16> [seconds per case]\n");
    return 2;
  }
  const int batch = std::atoi(argv[2]);
  const auto type =
      std::strcmp(argv[3], "bf16") == 0 ? memory::data_type::bf16 : memory::data_type::f32;
  const double seconds = argc > 4 ? std::atof(argv[4]) : 0.1;
  mxlite::openmp::set_num_threads(mxlite::cpu_threads());
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  double total_any = 0, total_best = 0, flops = 0;
  const char* separator = "";
  std::printf(
      "{\"network\": \"%s\", \"batch\": %d, \"dtype\": \"%s\", \"threads\": %d, \"cases\": [",
      argv[1], batch, argv[3], mxlite::cpu_threads());
  for (const Conv& c : kNetworks.at(argv[1])) {
    const int kh = c.kernel, kw = c.kernel_w ? c.kernel_w : kh;
    const int ph = c.pad, pw = c.pad_w >= 0 ? c.pad_w : ph;
    const int oh = (c.size + 2 * ph - kh) / c.stride + 1,
              ow = (c.size + 2 * pw - kw) / c.stride + 1;
    const memory::dims src{batch, c.in, c.size, c.size}, dst{batch, c.out, oh, ow};
    const memory::dims wei = c.group > 1
                                 ? memory::dims{c.group, c.out / c.group, c.in / c.group, kh, kw}
                                 : memory::dims{c.out, c.in, kh, kw};
    const double gflop = 2e-9 * batch * c.out * oh * ow * (c.in / c.group) * kh * kw;
    flops += gflop * c.count;
    double any_time = 0, best_time = 1e30;
    const auto report = [&](const char* variant, const char* impl, const char* from, const char* to,
                            double time) {
      std::printf(
          "%s\n    {\"conv\": \"%dx%d k%dx%d s%d g%d -> %d\", \"count\": %d, \"variant\": \"%s\", "
          "\"impl\": \"%s\", \"src\": \"%s\", \"dst\": \"%s\", \"ms\": %.4f, \"gflops\": %.1f}",
          separator, c.in, c.size, kh, kw, c.stride, c.group, c.out, c.count, variant, impl, from,
          to, time * 1e3, gflop / time);
      separator = ",";
    };
    struct Variant {
      const char* name;
      tag src, dst;
      dnnl::algorithm algorithm;
    };
    const tag blocks = mxlite::cpu::has_avx512() ? tag::nChw16c : tag::nChw8c;
    const tag first = c.in == 3 ? tag::nchw : blocks;
    for (const Variant& v :
         {Variant{"any", tag::any, tag::any, dnnl::algorithm::convolution_direct},
          Variant{"nhwc", tag::nhwc, tag::nhwc, dnnl::algorithm::convolution_direct},
          Variant{"blocked", first, blocks, dnnl::algorithm::convolution_direct},
          Variant{"plain-to-nhwc", tag::nchw, tag::nhwc, dnnl::algorithm::convolution_direct},
          Variant{"winograd", tag::any, tag::any, dnnl::algorithm::convolution_winograd}}) {
      if (std::strcmp(v.name, "plain-to-nhwc") == 0 && c.in != 3) continue;
      dnnl::primitive_attr attr;
      dnnl::post_ops post;
      post.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
      attr.set_post_ops(post);
      dnnl::convolution_forward::primitive_desc pd(
          engine, dnnl::prop_kind::forward_inference, v.algorithm, memory::desc(src, type, v.src),
          memory::desc(wei, type, tag::any), memory::desc({c.out}, memory::data_type::f32, tag::x),
          memory::desc(dst, type, v.dst), {c.stride, c.stride}, {ph, pw}, {ph, pw}, attr, true);
      bool first_impl = true;
      for (int tried = 0; pd.get(true) && tried < 4; ++tried) {
        const std::string impl = pd.impl_info_str();
        if (impl.find("ref") != std::string::npos || impl.find("gemm") == 0) break;
        memory a(pd.src_desc(), engine), w(pd.weights_desc(), engine), b(pd.bias_desc(), engine),
            d(pd.dst_desc(), engine);
        for (const memory* m : {&a, &w, &b, &d}) fill(*m);
        const dnnl::convolution_forward prim(pd);
        const std::unordered_map<int, memory> args = {
            {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, d}};
        const double best = best_of(seconds, [&] { prim.execute(stream, args); });
        report(v.name, impl.c_str(), layout_name(pd.src_desc()), layout_name(pd.dst_desc()), best);
        if (first_impl && std::strcmp(v.name, "any") == 0) any_time = best;
        first_impl = false;
        best_time = std::min(best_time, best);
        try {
          if (!pd.next_impl()) break;
        } catch (const dnnl::error&) {
          break;
        }
      }
    }
    if (kh == kw && (kh == 3 || kh == 5) && c.stride == 1 && c.group == 1 && c.in % 16 == 0 &&
        c.out % 16 == 0 && type == memory::data_type::f32) {
      using namespace mxlite::onednn;
      const cpu::WinogradProblem p{.batch = batch,
                                   .height = c.size,
                                   .width = c.size,
                                   .channels = c.in,
                                   .filters = c.out,
                                   .pad_height = ph,
                                   .pad_width = pw,
                                   .kernel = kh,
                                   .threads = mxlite::cpu_threads()};
      const memory a({src, type, tag::nhwc}, engine), w({wei, type, tag::Abcd16a}, engine);
      const memory d({dst, type, tag::nhwc}, engine), b({{c.out}, type, tag::x}, engine);
      for (const memory* m : {&a, &w, &d, &b}) fill(*m);
      const auto floats = [](const memory& m) { return static_cast<float*>(m.get_data_handle()); };
      const auto buffer = [](size_t bytes) {
        return std::unique_ptr<void, decltype(&std::free)>(
            std::aligned_alloc(64, (bytes + 63) / 64 * 64), std::free);
      };
      const auto transformed = buffer(cpu::winograd_weight_bytes(c.in, c.out));
      cpu::winograd_transform(c.in, c.out, kh, floats(w), static_cast<float*>(transformed.get()));
      const auto scratch = buffer(cpu::winograd_scratch_bytes(p, false));
      for (const bool before : {true, false}) {
        const cpu::WinogradArgs args{
            floats(a), floats(w), before ? static_cast<float*>(transformed.get()) : nullptr,
            floats(b), floats(d), false,
            true};
        const double best =
            best_of(seconds, [&] { cpu::winograd_convolution(p, args, scratch.get()); });
        report("mxlite winograd", before ? "weights transformed before" : "transformed in the call",
               "nhwc", "nhwc", best);
        best_time = std::min(best_time, best);
      }
    }
    total_any += any_time * c.count;
    total_best += best_time * c.count;
  }
  std::printf("\n  ], \"gflop\": %.2f, \"ms_default\": %.3f, \"ms_best_of_all\": %.3f}\n", flops,
              total_any * 1e3, total_best * 1e3);
  return 0;
}
