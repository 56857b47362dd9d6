// The graphs of a hybridized block. Each graph is traced and compiled once per signature, and then
// reused.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cpp/graph/recorded_graph.h"
#include "cpp/graph/run/executable.h"
#include "cpp/graph/trace.h"

namespace mxlite::graph {

struct SegmentedGraph;

using ArrayList = std::vector<NDArrayRef>;
// Runs a block's forward on traced arrays, which have no data.
using TraceFn = std::function<ArrayList(const ArrayList& inputs, const ArrayList& parameters)>;

// Result of one trace of forward.
struct Traced {
  std::vector<TensorSpec> input_specs, parameter_specs;  // specs of parameters may have unknown
                                                         // dimensions
  Device device;
  Graph graph;
  bool recording = false;
  bool numpy = false;  // whether arrays of the trace are of numpy mode's class
  bool exact = true;   // false if mixed precision was on for the call but off for the trace
};
// Parameters may have unknown dimensions (-1). The operators that read such a parameter determine
// its dimensions.
Traced trace_once(const TraceFn& trace, const std::string& name, Device device, bool training,
                  bool recording, std::vector<TensorSpec> inputs,
                  std::span<const TensorSpec> parameters, bool numpy = false);

class CachedGraph : public RefCounted {
 public:
  // `is_segment` means that another graph owns this graph and counts its memory.
  CachedGraph(TraceFn trace, std::string name, bool is_segment = false);
  ~CachedGraph() override;

  // Sets the parameters' arrays in the order in which forward gets them. Drops the compiled graphs
  // if shapes, dtypes or devices have changed.
  void set_params(ArrayList params);

  struct Mode {
    bool training = false;
    bool recording = false;
    bool (*needs_grad)(const NDArray&) = nullptr;  // called only if recording
  };
  // The executables of one signature. Immutable.
  struct Compiled {
    std::vector<TensorSpec> input_specs;
    Device device;
    bool training = false, recording = false, numpy = false;
    std::vector<uint8_t> needs;               // if recording: for inputs, then parameters
    ArrayList captured;                       // arrays that forward uses besides its arguments
    std::shared_ptr<RecordedGraph> recorded;  // if null, `plain` or `segmented` is run
    ExecutableRef plain;
    std::shared_ptr<const SegmentedGraph> segmented;  // if not null, its segments are run
    size_t num_outputs = 0;
  };
  struct Ready {
    std::shared_ptr<const Compiled> entry;
    std::shared_ptr<const ArrayList> parameters;  // parameters of set_params, then captured arrays
  };
  // Returns the compiled graph for these inputs. Thread-safe. Holds no lock while it traces.
  Ready prepare(std::span<const NDArrayRef> inputs, const Mode& mode);

  // Stores a trace that the next compilation for the same inputs uses instead of tracing again.
  void adopt(std::shared_ptr<Traced> traced);
  // Returns the specs of the inputs of the last call.
  std::optional<std::vector<TensorSpec>> last_signature() const;

  // Makes both graphs share a count of compilations, because `other` compiles the same network for
  // other shapes.
  void count_with(const CachedGraph& other);

  // Runs forward on arrays of another trace.
  ArrayList run_in_trace(std::span<const NDArrayRef> inputs) const;

  const std::string& name() const { return name_; }
  size_t num_entries() const;

  // Memory of a signature: its own bytes, and packed weights that several signatures may share.
  struct Footprint {
    size_t own = 0;
    std::vector<std::pair<const void*, size_t>> shared;
  };
  // A signature that GraphCache may drop, and the properties by which GraphCache selects
  // signatures.
  struct Evictable {
    CachedGraph* graph = nullptr;
    std::shared_ptr<const Compiled> entry;
    uint64_t last_use = 0;  // position in the order of all uses in this process
    Footprint footprint;
  };
  std::vector<Evictable> by_last_use();  // the most recently used entry is first
  void drop(const std::shared_ptr<const Compiled>& entry);
  void add_to(Footprint& footprint) const;  // counts all signatures

 private:
  struct KeptEntry {
    std::shared_ptr<const Compiled> entry;
    std::shared_ptr<const ArrayList> parameters;
    uint64_t last_use = 0;
  };
  bool matches(const KeptEntry& kept, std::span<const NDArrayRef> inputs, const Mode& mode) const;
  std::shared_ptr<Compiled> compile(std::span<const NDArrayRef> inputs, const Mode& mode,
                                    const ArrayList& params);
  std::shared_ptr<Traced> take_adopted(const Compiled& entry, std::span<const TensorSpec> params);
  ExecutableRef compile_plain(Graph graph, Device device) const;
  static std::shared_ptr<const ArrayList> join(const ArrayList& a, const ArrayList& b);
  size_t num_shapes_locked() const;

  const TraceFn trace_;
  const std::string name_;
  const bool is_segment_;
  mutable std::mutex mutex_;
  std::shared_ptr<const ArrayList> params_ = std::make_shared<ArrayList>();  // guarded by mutex_
  std::vector<KeptEntry> kept_;                 // guarded by mutex_; the most recent entry is first
  std::shared_ptr<Traced> adopted_;             // guarded by mutex_
  bool warned_ = false;                         // guarded by mutex_
  std::shared_ptr<std::atomic<int>> compiled_;  // guarded by mutex_; for inference only
};

// Sets the function that receives warnings for the user. By default, warnings go to standard error.
// An exception of the function propagates from the call that caused the warning.
void set_warning_function(void (*warn)(const std::string& text));

// Traces the block to find the shapes of parameters whose specs have unknown dimensions (-1).
// Shapes that forward does not use stay unknown. An operator throws if it cannot infer a shape that
// it needs.
Traced infer_params(const TraceFn& trace, const std::string& name,
                    std::span<const NDArrayRef> inputs, std::span<const TensorSpec> specs,
                    bool training, bool recording);

}  // namespace mxlite::graph
