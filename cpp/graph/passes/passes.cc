#include "cpp/graph/passes/passes.h"

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cpp/base/env.h"
#include "cpp/base/error.h"
#include "cpp/core/profile_hooks.h"

namespace mxlite::graph {

bool verify_is_on() {
#ifdef NDEBUG
  static const bool on = env_int("MXLITE_VERIFY_GRAPH", 0) != 0;
  return on;
#else
  return true;
#endif
}

void dump(const std::string& graph_name, const char* stage, const std::string& text) {
  static const std::string directory = env_string("MXLITE_DUMP_GRAPH", "");
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

Graph run_passes(Graph graph, const PassContext& context) {
  dump(graph.name, "traced", graph.text());
  if (verify_is_on()) verify(graph, "trace");
  for (const Pass& pass : kPasses) {
    if (context.exact && !pass.exact) continue;
    const ProfileScope profile(pass.name, ProfileKind::kPass);
    graph = pass.run(graph, context);
    dump(graph.name, pass.name, graph.text());
    if (verify_is_on()) verify(graph, pass.name);
  }
  return graph;
}

}  // namespace mxlite::graph
