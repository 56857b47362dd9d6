// Readers of foreign bytes: every input ends in values or in a kRecord error. Valid
// inputs are changed at random places, with fixed seeds; the sanitizer builds see reads beyond the
// end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cpp/io/decode.h"
#include "cpp/io/encode.h"
#include "cpp/io/record_file.h"
#include "cpp/io/record_format.h"
#include "cpp/io/record_writer.h"
#include "cpp/io/text_rows.h"

namespace mxlite::io {
namespace {

using Random = std::mt19937;

class ParserFuzz : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string read() const {
    std::string raw(std::filesystem::file_size(path_), '\0');
    std::ifstream(path_, std::ios::binary).read(raw.data(), std::ssize(raw));
    return raw;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() / str(::getpid(), "_fuzz")).string();
};

// Up to four changes: a bit, a byte, a stretch cut out, doubled or overwritten, the end cut off.
std::string mutated(std::string text, Random& random) {
  for (uint32_t changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
    const size_t at = random() % text.size();
    const size_t length = 1 + random() % std::min<size_t>(16, text.size() - at);
    switch (random() % 6) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      case 4:
        text.replace(at, length, length, static_cast<char>(random()));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

// Runs `use` and allows only errors of damaged data.
template <class Use>
void expect_values_or_record_error(Use use) {
  try {
    use();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kRecord) << e.what();
  }
}

TEST_F(ParserFuzz, RecordFiles) {
  Random random(1);
  {
    RecordWriter writer(path_);
    for (size_t length : {0U, 1U, 4U, 30U, 100U}) {
      std::string record(length, 'x');
      for (char& c : record) c = static_cast<char>(random());
      if (length >= 30) std::memcpy(record.data() + 8, &kRecordMagic, 4);
      writer.write(std::as_bytes(std::span(record)));
    }
  }
  const std::string valid = read();
  for (int round = 0; round < 1000; ++round) {
    write(mutated(valid, random));
    RecordReader reader(path_);
    bool more = true;
    for (int steps = 0; more; ++steps) {
      ASSERT_LT(steps, 100) << "no progress in round " << round;
      more = reader.tell() < reader.file().size();
      expect_values_or_record_error([&] {
        Record record;
        more = reader.next(record);
      });
    }
  }
}

TEST_F(ParserFuzz, CsvFiles) {
  Random random(2);
  for (int round = 0; round < 1000; ++round) {
    write(mutated("1,2.5,-3e4\n4, 5 ,6\r\n\n7,8,+9,\n", random));
    for (const DType dtype : {DType::kFloat32, DType::kInt64}) {
      expect_values_or_record_error([&] {
        CsvReader reader(path_, 3, dtype);
        std::vector<int64_t> rows(5 * 3);
        for (int steps = 0; reader.read(5, round % 2 == 0, rows.data()) > 0; ++steps)
          ASSERT_LT(steps, 100);
      });
    }
  }
}

TEST_F(ParserFuzz, LibSvmFiles) {
  Random random(3);
  for (int round = 0; round < 1000; ++round) {
    write(mutated("1 0:1.5 7:2\n-1\n0.5 3:-1e3 5:4 # end\n2 1:1\n", random));
    for (int64_t part = 0; part < 2; ++part) {
      expect_values_or_record_error([&] {
        LibSvmReader reader(path_, 8, part, 2);
        LibSvmRows rows;
        for (int steps = 0; reader.read(3, round % 2 == 0, rows) > 0; ++steps)
          ASSERT_LT(steps, 100);
        for (const int64_t column : rows.columns) EXPECT_TRUE(column >= 0 && column < 8);
        EXPECT_EQ(rows.begins.back(), std::ssize(rows.values));
        EXPECT_EQ(rows.begins.size(), rows.labels.size() + 1);
      });
    }
  }
}

TEST_F(ParserFuzz, Images) {
  Random random(4);
  std::vector<unsigned char> pixels(40 * 33 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<unsigned char>(i * i / 40);
  for (const auto format : {ImageFormat::kJpeg, ImageFormat::kPng}) {
    const auto encoded =
        encode_image({pixels.data(), 33, 40}, format, format == ImageFormat::kJpeg ? 90 : 3);
    const std::string valid(reinterpret_cast<const char*>(encoded.data()), encoded.size());
    Window window;
    for (int round = 0; round < 1500; ++round) {
      const std::string bad = mutated(valid, random);
      // A copy of exact size, so that the address sanitizer knows its end.
      const std::vector<char> copy(bad.begin(), bad.end());
      const auto bytes = std::as_bytes(std::span(copy));
      expect_values_or_record_error([&] {
        const ImageInfo info = read_image_header(bytes, "fuzz");
        if (int64_t{info.width} * info.height > 1 << 22) return;
        exif_orientation(bytes);
        DecodeOptions options;
        options.order = ColorOrder::kRGBA;
        decode_image(bytes, options);
        decode_window(bytes, options, {info.width / 3, info.height / 3, 1, 1}, window);
      });
    }
  }
}

}  // namespace
}  // namespace mxlite::io
