// The passes over symbols: each makes a graph of calls, whose shapes may be unknown, into another
// one. It is a free function in a file of its own, written with graph::Rewrite; the table in
// passes.cc has all of them. Unlike those of compiled graphs they change what a symbol means, so
// each runs only where a user asks for it.
#pragma once
#include <span>
#include <string_view>

#include "cpp/graph/graph.h"
#include "cpp/symbol/node.h"

namespace mxlite::symbol {

graph::Graph remove_casts(const graph::Graph& graph);

struct Pass {
  const char* name;
  const char* purpose;
  graph::Graph (*run)(const graph::Graph& graph);
};
std::span<const Pass> passes();

// Returns a new symbol whose nodes keep their names, lines and attributes. MXLITE_VERBOSE,
// MXLITE_DUMP_GRAPH and MXLITE_VERIFY_GRAPH act as in graph::run_passes. A name of no pass is a
// value error.
Entries run_pass(std::string_view name, const Entries& heads);

}  // namespace mxlite::symbol
