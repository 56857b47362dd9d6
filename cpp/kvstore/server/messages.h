// Bodies of frames between workers and servers. Messages that all kinds of jobs use get shorter
// names.
#pragma once
#include <string>
#include <vector>

#include "cpp/kvstore/comm/members/messages.h"

namespace mxlite::server {

using members::error_reply;
using members::Hello;
using members::JobState;
using members::MemberState;
using members::MemberStatus;
using members::Registered;
using members::Registration;
using members::Reply;
using members::reply_frame;
using members::Role;
using members::Welcome;

struct PlaceRequest {
  std::vector<std::string> keys;
  std::vector<int64_t> bytes;
  std::vector<std::string> specs;  // "float32(2, 3)"
  bool settled = false;  // whether all workers have sent their specs, so that they can be compared
  auto fields() { return std::tie(keys, bytes, specs, settled); }
  void check() const {
    MX_CHECK_KIND(bytes.size() == keys.size() && specs.size() == keys.size(),
                  ErrorKind::kCommunicator,
                  "parameter server: a request must have one size and one type per key, ",
                  keys.size(), ", got ", bytes.size(), " sizes and ", specs.size(), " types");
  }
};

// One part of an array on a server.
struct PartSpec {
  std::string key;
  uint32_t part = 0;
  DType dtype = DType::kFloat32;
  int64_t count = 0;      // number of elements
  int64_t row_size = 1;   // number of elements per row
  int64_t first_row = 0;  // index of the part's first row in the array
  int64_t rows() const { return row_size > 0 ? count / row_size : 0; }
  size_t bytes() const { return static_cast<size_t>(count) * dtype_size(dtype); }
  auto fields() { return std::tie(key, part, dtype, count, row_size, first_row); }
  void check() const {
    MX_CHECK_KIND(count >= 0 && count <= static_cast<int64_t>(kMostData), ErrorKind::kCommunicator,
                  "parameter server: a part must have 0 to ", kMostData, " elements, got ", count);
    MX_CHECK_KIND(row_size >= 1, ErrorKind::kCommunicator,
                  "parameter server: the row size of a part must be at least 1, got ", row_size);
    MX_CHECK_KIND(count % row_size == 0, ErrorKind::kCommunicator,
                  "parameter server: the number of elements of a part must be a multiple of its "
                  "row size, got ",
                  count, " elements in rows of ", row_size);
    MX_CHECK_KIND(first_row >= 0, ErrorKind::kCommunicator,
                  "parameter server: the first row of a part must be at least 0, got ", first_row);
  }
};

enum class PushForm : uint8_t { kDense, kRows, kTwoBit, kOneBit };
constexpr PushForm last_enumerator(PushForm) { return PushForm::kOneBit; }

struct PushHeader {
  std::string key;
  uint32_t part = 0;
  uint64_t step = 0;  // number of this worker's push of the key; the first push has 1
  PushForm form = PushForm::kDense;
  DType dtype = DType::kFloat32;
  float threshold = 0;        // used if the gradients are compressed
  std::vector<int64_t> rows;  // indices of rows within the part
  auto fields() { return std::tie(key, part, step, form, dtype, threshold, rows); }
};

struct PullHeader {
  std::string key;
  uint32_t part = 0;
  uint64_t step = 0;  // number of this worker's push that the value must include
  bool by_rows = false;
  std::vector<int64_t> rows;
  auto fields() { return std::tie(key, part, step, by_rows, rows); }
};

struct PartName {
  std::string key;
  uint32_t part = 0;
  auto fields() { return std::tie(key, part); }
};

struct Command {
  uint64_t number = 0;  // command number of this worker; the first command has 1
  int32_t head = 0;
  std::string name, text;
  auto fields() { return std::tie(number, head, name, text); }
};
// Commands of the store itself have negative heads. Commands of users have heads of at least 0.
enum CommandHead : int32_t {
  kSetSync = -1,
  kSetOptimizer = -2,     // name: scope and optimizer, "sgd" or "1:sgd"; text: JSON
  kUpdateOptimizer = -3,  // name: scope
  kProfiler = -4,  // names: "config" (text: JSON), "state" (run, stop, pause, resume), "dump"
};

// Several stores of one process share the servers, but each store has its own optimizer. The scope
// of a store is the prefix of its keys. Returns "1:" for "1:w", and "" for names without a number.
inline std::string scope_of(const std::string& name) {
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || name[digits] != ':') return "";
  return name[0] == '0' ? "" : name.substr(0, digits + 1);
}

}  // namespace mxlite::server
