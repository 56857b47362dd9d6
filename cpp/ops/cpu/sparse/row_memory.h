// Memory for the rows of a table. Addresses are reserved once; memory is provided, filled with
// zeros, as the table grows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace mxlite::sparse {

class RowMemory {
 public:
  // Reserves addresses for `most_rows` rows, or, if it is -1, for as many rows as this host's free
  // memory holds.
  RowMemory(std::string table, size_t row_bytes, int64_t most_rows);
  ~RowMemory();
  RowMemory& operator=(RowMemory&&) = delete;  // neither copied nor moved

  // Provides memory for the first `rows` rows, by all compute threads. Throws an out-of-memory
  // error that says how many rows fit; existing rows are kept.
  void require(int64_t rows);
  std::byte* row(int64_t index) const { return base_ + static_cast<size_t>(index) * row_bytes_; }
  int64_t most_rows() const { return most_rows_; }
  size_t row_bytes() const { return row_bytes_; }

 private:
  [[noreturn]] void fail_at(int64_t rows, size_t more_bytes) const;

  const std::string table_;
  const size_t row_bytes_;
  int64_t most_rows_;
  size_t reserved_ = 0, ready_ = 0;  // bytes
  std::byte* base_ = nullptr;
};

}  // namespace mxlite::sparse
