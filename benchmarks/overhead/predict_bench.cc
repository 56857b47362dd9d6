// Time of a predictor's call (set_input, forward, get_output) beside the time of the network alone,
// and of the first result from files; prints one JSON line.
//
//     predict_bench model-symbol.json model-0000.params 1 8
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mxlite/predict.hpp>

#include "cpp/ndarray/params_file.h"
#include "cpp/predict/predictor.h"

namespace {

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double median_us(const auto& call) {
  constexpr double kLongest = 3e6;
  constexpr size_t kMostCalls = 20000;
  std::vector<double> samples;
  for (const double end = now_us() + kLongest; now_us() < end && samples.size() < kMostCalls;) {
    const double begin = now_us();
    call();
    samples.push_back(now_us() - begin);
  }
  std::ranges::nth_element(samples, samples.begin() + samples.size() / 2);
  return samples[samples.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s SYMBOL PARAMS EXTENT...\n", argv[0]);
    return 2;
  }
  std::vector<int64_t> shape;
  for (int i = 3; i < argc; ++i) shape.push_back(std::atoll(argv[i]));

  const double begin = now_us();
  mxlite::Predictor predictor(argv[1], argv[2], {{"data", shape}});
  const std::vector<float> values(predictor.inputs()[0].size(), 0.5F);
  const auto call = [&] {
    predictor.set_input("data", values);
    predictor.forward();
    return predictor.output();
  };
  call();
  const double first = now_us() - begin;

  using namespace mxlite;  // NOLINT: below, only the library's own classes
  const auto network =
      predict::make_network(predict::read_text(argv[1]), argv[1], load_params(argv[2]), {}, {});
  const symbol::BoundArrays arrays =
      symbol::bound_arrays(network->heads, network->parameters, {{"data", Shape(shape)}});
  symbol::BoundGraph graph(network->heads, arrays, std::nullopt, "network");
  const auto run = [&] { graph.forward(false, false)[0]->wait_to_read(); };
  run();
  std::printf("{\"first_result_ms\": %.1f, \"call_us\": %.2f, \"network_us\": %.2f}\n", first / 1e3,
              median_us(call), median_us(run));
}
