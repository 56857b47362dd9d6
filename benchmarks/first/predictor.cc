// The first two results of a C++ program by <mxlite/predict.hpp>: seconds of each part, as one JSON
// line in the layout of worker.py.
//
//     predictor FOLDER BEGIN TYPE EXTENT...    # TYPE: code of the input's type
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mxlite/predict.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Parts {
  double wall, cpu = 0;
  void print(const char* name) {
    const double new_wall = seconds(CLOCK_REALTIME), new_cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    std::printf("\"%s\": {\"wall\": %.6f, \"cpu\": %.6f}, ", name, new_wall - wall, new_cpu - cpu);
    wall = new_wall;
    cpu = new_cpu;
  }
};

template <class T>
std::vector<float> run(mxlite::Predictor& predictor, const std::vector<char>& bytes) {
  const auto* values = reinterpret_cast<const T*>(bytes.data());
  predictor.set_input("data", std::vector<T>(values, values + bytes.size() / sizeof(T)));
  predictor.forward();
  return predictor.output();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  Parts parts{std::atof(argv[2])};
  std::printf("{");
  parts.print("import");
  const std::string folder = argv[1];
  std::vector<int64_t> shape;
  for (int i = 4; i < argc; ++i) shape.push_back(std::atoll(argv[i]));
  const int type = std::atoi(argv[3]);
  mxlite::Predictor predictor(folder + "/net-symbol.json", folder + "/net-0000.params",
                              {{"data", shape, type}});
  std::ifstream file(folder + "/data.bin", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const auto call = [&] {
    return type == MXLITE_INT32 ? run<int32_t>(predictor, bytes) : run<float>(predictor, bytes);
  };
  parts.print("build");
  const std::vector<float> output = call();
  parts.print("first call");
  call();
  parts.print("second call");
  std::printf("\"output\": [");
  for (size_t i = 0; i < 16; ++i) std::printf("%s%.9g", i ? ", " : "", output[i]);
  std::printf("]}\n");
}
