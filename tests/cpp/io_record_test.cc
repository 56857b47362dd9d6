// Record files: divided records are restored, and damage loses only the damaged records.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "cpp/io/record_file.h"
#include "cpp/io/record_format.h"
#include "cpp/io/record_writer.h"

namespace mxlite::io {
namespace {

std::string scratch_path(const std::string& name) {
  return (std::filesystem::temp_directory_path() / (str(::getpid(), "_") + name)).string();
}

std::span<const std::byte> as_span(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const std::string kMagicText(reinterpret_cast<const char*>(&kRecordMagic), 4);

TEST(RecordFile, RecordsWithTheMagicAreDividedAndGlued) {
  const std::string path = scratch_path("divided.rec");
  const std::vector<std::string> records = {"", "abc", kMagicText, "wxyz" + kMagicText + "tail!",
                                            "x" + kMagicText};
  {
    RecordWriter writer(path);
    for (const std::string& record : records) writer.write(as_span(record));
    writer.close();
  }
  RecordReader reader(path);
  Record record;
  for (const std::string& expected : records) {
    ASSERT_TRUE(reader.next(record));
    EXPECT_EQ(as_text(record.bytes), expected);
  }
  EXPECT_FALSE(reader.next(record));
  std::filesystem::remove(path);
}

TEST(RecordFile, EveryDamagedByteOfAHeadIsReportedOrHarmless) {
  const std::string path = scratch_path("damaged.rec");
  const std::vector<std::string> records = {"record-0", "record-1", "record-2"};
  {
    RecordWriter writer(path);
    for (const std::string& record : records) writer.write(as_span(record));
  }
  std::string raw(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(raw.data(), static_cast<std::streamsize>(raw.size()));
  for (size_t byte = 16; byte < 24; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = raw;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      std::ofstream(path, std::ios::binary) << bad;
      RecordReader reader(path);
      std::vector<std::string> found;
      int errors = 0;
      for (bool more = true; more;) {
        Record record;
        try {
          more = reader.next(record);
          if (more) found.push_back(as_text(record.bytes));
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::kRecord);
          EXPECT_NE(std::strstr(e.what(), "damaged.rec"), nullptr) << e.what();
          ++errors;
        }
      }
      // The neighbours always survive; a length made smaller ends in an error after the record.
      ASSERT_GE(found.size(), 2U) << byte << ' ' << bit;
      EXPECT_EQ(found.front(), records[0]);
      EXPECT_EQ(found.back(), records[2]);
      if (found.size() == 2) {
        EXPECT_EQ(errors, 1) << byte << ' ' << bit;
      }
    }
  }
  std::filesystem::remove(path);
}

TEST(RecordFile, FindHeadSkipsTheMiddleOfDividedRecords) {
  const std::string path = scratch_path("heads.rec");
  {
    RecordWriter writer(path);
    writer.write(as_span("wxyz" + kMagicText + "tail"));
    writer.write(as_span("next"));
  }
  const RecordFile file(path);
  EXPECT_EQ(file.find_head(0), 0);
  EXPECT_EQ(file.find_head(1), 24);
  EXPECT_EQ(file.find_head(24), 24);
  EXPECT_EQ(file.find_head(25), file.size());
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mxlite::io
