// Decides which server stores which part of an array. All processes of a job compute the same
// layout from the same arguments.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cpp/core/shape.h"

namespace mxlite::store {

inline constexpr int64_t kPartElements = int64_t{1} << 20;  // upper bound, unless one row is larger

struct ServerPart {
  int server = 0;
  int64_t first = 0, count = 0;  // in elements
};

struct Layout {
  std::vector<ServerPart> parts;  // in element order; an empty array has one part
  int64_t row_size = 1;           // elements per row; parts contain whole rows
  bool by_rows = true;            // false if parts divide rows, because a row exceeds kPartElements
};

// Arrays of at least `big_array` elements are split evenly over all servers. Smaller arrays are
// stored on `server`.
Layout make_layout(const TensorSpec& spec, int num_servers, int server, int64_t big_array);

// Assigns each key to the server with the fewest bytes so far. Only the scheduler has this object,
// so workers may send their requests in any order. Arrays that are split over all servers count 0
// bytes.
class Placement {
 public:
  explicit Placement(int num_servers) : load_(static_cast<size_t>(num_servers), 0) {}
  int place(const std::string& key, int64_t bytes);
  // Stores the spec (such as "float32(2, 3)") that a worker has reported for a key that is already
  // assigned.
  void note(const std::string& key, int worker, const std::string& spec);
  // Returns a text that says which workers report different specs. The text is empty if they agree.
  std::string conflict(const std::string& key) const;
  const std::vector<int64_t>& load() const { return load_; }

 private:
  struct Key {
    int server = 0;
    std::map<int, std::string> specs;  // keys: workers; has the first spec and specs that
                                       // differ from it
    int first = -1;
  };
  std::vector<int64_t> load_;
  std::map<std::string, Key> keys_;
};

}  // namespace mxlite::store
