#include "cpp/graph/passes/passes.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"
#include "cpp/graph/passes/training_passes.h"
#include "cpp/graph/run/packing.h"
#include "cpp/graph/run/program.h"
#include "cpp/graph/run/program_segments.h"

namespace mxlite::graph {
namespace {

constexpr Pass kRemoveDead{"remove-dead", "removes nodes whose outputs are not read", remove_dead};
constexpr Pass kRemoveIdentity{"remove-identity", "removes operators that return their input",
                               remove_identity};
constexpr Pass kFoldConstants{"fold-constants", "computes what depends on constants alone",
                              fold_constants};
constexpr Pass kMergeCommon{"merge-common", "computes equal expressions once", merge_common};
constexpr Pass kChannelsLast{"channels-last", "runs half-precision convolutions of a GPU in NHWC",
                             channels_last};
constexpr Pass kFoldBatchNorm{"fold-batch-norm", "scales convolution weights in place of BatchNorm",
                              fold_batch_norm};
constexpr Pass kFusePostOps{"fuse-post-ops", "lets kernels apply activations and sums",
                            fuse_post_ops};
constexpr Pass kJoinSlices{"join-slices", "joins the gradients of slices in place of adding them",
                           join_slices};
constexpr Pass kAddEmbeddingRows{"add-embedding-rows",
                                 "adds an embedding's gradient to that of the layer tied to it",
                                 add_embedding_rows};
constexpr Pass kJoinGelu{"join-gelu", "computes a GELU again together with its gradient",
                         join_gelu};
constexpr Pass kAddNormGradients{"add-norm-gradients",
                                 "lets BatchNorm's gradient on a GPU add two gradients",
                                 add_norm_gradients};
constexpr Pass kFuseAttention{"fuse-attention", "computes attention without its scores in memory",
                              fuse_attention};
constexpr Pass kFuseNorm{"fuse-norm", "joins BatchNorm, sum and relu, which save less for backward",
                         fuse_norm};
constexpr Pass kFuseDropout{"fuse-dropout", "joins Dropout and the addition of a residual",
                            fuse_dropout};
constexpr Pass kFuseStatistics{"fuse-statistics",
                               "lets float16 convolutions of a GPU add up channels for BatchNorm",
                               fuse_statistics};

// remove-dead runs again at the end to drop nodes that the fusions made unused. fuse-attention runs
// at the same position in all tables, so that training draws the same random numbers whether or not
// it is recorded. fuse-attention runs before fold-constants, because value_facts knows nothing
// about masks that are constants.
constexpr std::array kInferencePasses = {kRemoveDead,    kFuseAttention, kRemoveIdentity,
                                         kFoldConstants, kMergeCommon,   kChannelsLast,
                                         kFoldBatchNorm, kFusePostOps,   kRemoveDead};
constexpr std::array kRecordedPasses = {kRemoveDead, kFuseAttention, kChannelsLast};
constexpr std::array kDifferentiatedPasses = {kFuseNorm, kFuseDropout, kFuseStatistics};
constexpr std::array kTrainingPasses = {
    kRemoveDead,       kFuseAttention, kRemoveIdentity,   kFoldConstants, kMergeCommon, kJoinSlices,
    kAddEmbeddingRows, kJoinGelu,      kAddNormGradients, kFusePostOps,   kRemoveDead};

struct NamedPipeline {
  const char* name;
  std::span<const Pass> passes;
};
// The tables of passes, indexed by the value of Pipeline.
constexpr NamedPipeline kPipelines[] = {{"inference", kInferencePasses},
                                        {"recorded", kRecordedPasses},
                                        {"differentiated", kDifferentiatedPasses},
                                        {"training", kTrainingPasses}};
const NamedPipeline& named(Pipeline pipeline) { return kPipelines[static_cast<size_t>(pipeline)]; }

// These passes run after propagate_layout, which creates the program.
constexpr std::array kProgramPasses = {
    ProgramPass{"fuse-pointwise", "runs chains of pointwise operators in one sweep",
                fuse_pointwise},
    ProgramPass{"finish-outputs-early", "copies outputs as soon as their values are there",
                finish_outputs_early},
    ProgramPass{"split-prologue", "moves what depends on parameters alone out of each run",
                split_prologue},
    ProgramPass{"plan-memory", "gives every buffer its place", plan_memory},
};
bool is_pass(std::string_view name) {
  for (const NamedPipeline& pipeline : kPipelines)
    for (const Pass& pass : pipeline.passes)
      if (pass.name == name) return true;
  return false;
}

std::set<std::string, std::less<>> passes_to_skip() {
  std::set<std::string, std::less<>> names;
  std::istringstream list(env_string("MXLITE_SKIP_PASSES", ""));
  for (std::string name; std::getline(list, name, ',');) {
    MX_CHECK(is_pass(name),
             "MXLITE_SKIP_PASSES must contain names of passes that MXLITE_VERBOSE=passes "
             "prints them, got '",
             name, "'");
    names.insert(name);
  }
  return names;
}

bool is_skipped(const Pass& pass) {
  static const std::set<std::string, std::less<>> names = passes_to_skip();
  return names.contains(std::string_view(pass.name));
}

size_t count_instructions(const Program& program) {
  return program.prologue.size() + program.main.size();
}

void print(const std::string& graph_name, const char* pipeline, const char* pass, size_t before,
           size_t after, const char* what) {
  static const bool on = env_string("MXLITE_VERBOSE", "").find("passes") != std::string::npos;
  if (on)
    std::fprintf(stderr, "mxlite: %s: %s: %s: %zu -> %zu %s\n",
                 graph_name.empty() ? "graph" : graph_name.c_str(), pipeline, pass, before, after,
                 what);
}

}  // namespace

bool verify_is_on() {
#ifdef NDEBUG
  static const bool on = env_int("MXLITE_VERIFY_GRAPH", 0) != 0;
  return on;
#else
  return true;
#endif
}

namespace {

const std::string& dump_directory() {
  static const std::string directory = env_string("MXLITE_DUMP_GRAPH", "");
  return directory;
}

// Creates the text only on request, because creating it takes as long as several passes.
template <class T>
void dump_if_asked(const T& graph, const char* stage) {
  if (!dump_directory().empty()) dump(graph.name, stage, graph.text());
}

}  // namespace

void dump(const std::string& graph_name, const char* stage, const std::string& text) {
  const std::string& directory = dump_directory();
  if (directory.empty()) return;
  static std::atomic<int> serial{0};
  char number[16];
  std::snprintf(number, sizeof number, "%05d", serial++);
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  std::string file = graph_name.empty() ? "graph" : graph_name;
  for (char& c : file)
    if (c == '/' || c == ' ') c = '_';
  const std::string path = str(directory, '/', number, '_', file, '_', stage, ".txt");
  std::ofstream out(path);
  out << text;
  MX_CHECK_KIND(out.good(), ErrorKind::kRecord, "MXLITE_DUMP_GRAPH=", directory, ": cannot write ",
                path);
}

std::span<const Pass> passes_of(Pipeline pipeline) { return named(pipeline).passes; }

std::span<const ProgramPass> program_passes() { return kProgramPasses; }

Graph run_pass(const char* table, const char* name, const Graph& graph,
               const std::function<Graph(const Graph&)>& pass, bool has_shapes) {
  const ProfileScope profile(name, ProfileKind::kPass);
  Graph result = pass(graph);
  print(graph.name, table, name, graph.nodes.size(), result.nodes.size(), "nodes");
  dump_if_asked(result, name);
  if (verify_is_on()) verify(result, name, has_shapes);
  return result;
}

Graph run_passes(Pipeline pipeline, Graph graph, const PassContext& context) {
  const auto& [label, passes] = named(pipeline);
  dump_if_asked(graph, label);
  if (verify_is_on()) verify(graph, label);
  for (const Pass& pass : passes) {
    if (is_skipped(pass)) continue;
    graph = run_pass(label, pass.name, graph,
                     [&](const Graph& before) { return pass.run(before, context); });
  }
  return graph;
}

Program lower(const Graph& graph, const PassContext& context, const Border& border) {
  const ProfileScope profile("lower", ProfileKind::kPass);
  Program program = propagate_layout(graph, context, border);
  print(graph.name, "lower", "propagate-layout", graph.nodes.size(), count_instructions(program),
        "nodes to instructions");
  if (verify_is_on()) verify(program, "propagate-layout", false);
  for (const ProgramPass& pass : kProgramPasses) {
    const size_t before = count_instructions(program);
    pass.run(program, context);
    print(program.name, "lower", pass.name, before, count_instructions(program), "instructions");
    if (verify_is_on()) verify(program, pass.name, &pass == &kProgramPasses.back());
  }
  dump_if_asked(program, "program");
  return program;
}

}  // namespace mxlite::graph
