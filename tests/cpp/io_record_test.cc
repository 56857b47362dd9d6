// Tests the search for the beginning of a record in record files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cpp/io/record_file.h"
#include "cpp/io/record_format.h"
#include "cpp/io/record_writer.h"

namespace mxlite::io {
namespace {

std::span<const std::byte> as_span(const std::string& text) {
  return std::as_bytes(std::span(text));
}

const std::string kMagicText(reinterpret_cast<const char*>(&kRecordMagic), 4);

TEST(RecordFile, FindHeadSkipsTheMiddleOfDividedRecords) {
  const std::string path = std::filesystem::temp_directory_path() / str(::getpid(), "_heads.rec");
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
