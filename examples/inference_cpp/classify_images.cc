// Classifies JPEG and PNG files, one thread per file; the threads share the weights.
//
//     classify_images model-symbol.json model-0000.params 224 photo.jpg...
//
// Images are resized to 8/7 of the given side, cropped to a square of it, and normalized with the
// mean and standard deviation of ImageNet.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mxlite/predict.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

std::vector<float> pixels_of(const std::string& path, int side) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) throw std::runtime_error(path + ": cannot be read or is empty");
  const float mean[] = {123.68F, 116.779F, 103.939F}, std[] = {58.393F, 57.12F, 57.375F};
  std::vector<float> pixels(3 * static_cast<size_t>(side) * static_cast<size_t>(side));
  if (mxlite_predict_decode_image(bytes.data(), bytes.size(), side * 8 / 7, side, side, mean, std,
                                  pixels.data()) != 0)
    throw std::runtime_error(path + ": " + mxlite_predict_error());
  return pixels;
}

// Returns one line of text, so that lines of several threads do not mix.
std::string classify(mxlite::Predictor predictor, const std::string& path, int side) {
  try {
    predictor.set_input("data", pixels_of(path, side));
    predictor.forward();
    const std::vector<float> scores = predictor.output();
    const auto best = std::max_element(scores.begin(), scores.end());
    char line[64];
    std::snprintf(line, sizeof line, ": class %td, score %.9g", best - scores.begin(), *best);
    return path + line;
  } catch (const std::exception& error) {
    return path + ": " + error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s SYMBOL PARAMS SIDE IMAGE...\n", argv[0]);
    return 2;
  }
  try {
    const int side = std::stoi(argv[3]);
    const mxlite::Predictor network(argv[1], argv[2], {{"data", {1, 3, side, side}}});
    std::vector<std::string> lines(static_cast<size_t>(argc - 4));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < lines.size(); ++i)
      threads.emplace_back([&network, &lines, i, side, path = std::string(argv[i + 4])] {
        lines[i] = classify(network.share(), path, side);
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& line : lines) std::puts(line.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
