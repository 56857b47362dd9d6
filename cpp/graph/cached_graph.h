// A hybridized block: traced and compiled once per signature, then only run.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cpp/graph/executable.h"
#include "cpp/graph/recorded_graph.h"
#include "cpp/graph/trace.h"

namespace mxlite::graph {

struct Split;

using ArrayList = std::vector<NDArrayRef>;
// Runs a block's forward on (traced) arrays.
using TraceFn = std::function<ArrayList(const ArrayList& inputs, const ArrayList& parameters)>;

class CachedGraph : public RefCounted {
 public:
  CachedGraph(TraceFn trace, std::string name) : trace_(std::move(trace)), name_(std::move(name)) {}

  // The arrays of the parameters in the order in which forward gets them. Other shapes or dtypes
  // drop what was compiled.
  void set_params(ArrayList params);

  struct Mode {
    bool training = false;
    bool recording = false;
    bool (*needs_grad)(const NDArray&) = nullptr;  // asked when recording
  };
  // What one signature was compiled to. Immutable.
  struct Entry {
    std::vector<TensorSpec> input_specs;
    Device device;
    bool training = false, recording = false;
    std::vector<uint8_t> needs;               // recording: by input, then parameter
    ArrayList captured;                       // arrays that forward used without being handed them
    std::shared_ptr<RecordedGraph> recorded;  // null: run `plain` or `split`
    ExecutableRef plain;
    std::shared_ptr<const Split> split;  // not null: the graph has host operators, run its parts
    size_t num_outputs = 0;
  };
  struct Ready {
    std::shared_ptr<const Entry> entry;
    std::shared_ptr<const ArrayList> parameters;  // set_params' and the captured ones
  };
  // The compiled graph for these inputs. Thread-safe; tracing runs without a lock held.
  Ready prepare(std::span<const NDArrayRef> inputs, const Mode& mode);

  // forward on arrays of another trace.
  ArrayList run_in_trace(std::span<const NDArrayRef> inputs) const;

  const std::string& name() const { return name_; }
  size_t num_entries() const;

 private:
  struct Slot {
    std::shared_ptr<const Entry> entry;
    std::shared_ptr<const ArrayList> parameters;
  };
  bool matches(const Slot& slot, std::span<const NDArrayRef> inputs, const Mode& mode) const;
  std::shared_ptr<Entry> compile(std::span<const NDArrayRef> inputs, const Mode& mode,
                                 const ArrayList& params) const;
  static std::shared_ptr<const ArrayList> join(const ArrayList& a, const ArrayList& b);
  void warn_if_many() const;

  const TraceFn trace_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::shared_ptr<const ArrayList> params_ = std::make_shared<ArrayList>();  // guarded by mutex_
  std::vector<Slot> slots_;  // guarded by mutex_; last used first
};

// Shapes of parameters whose specs have unknown dimensions (-1), found by tracing. What forward
// does not use stays unknown; an operator that cannot tell a shape it needs throws.
std::vector<Shape> infer_params(const TraceFn& trace, std::span<const NDArrayRef> inputs,
                                std::span<const TensorSpec> specs, bool training);

}  // namespace mxlite::graph
