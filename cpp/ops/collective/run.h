// Runs collective operators. Other processes decide when a call ends, and all ranks must make
// the same calls in the same order: calls are never part of an executable, where passes could
// merge, move or drop them, and never wait inside a worker of the engine.
#pragma once
#include "cpp/ops/collective/processes.h"
#include "cpp/ops/invoke.h"

namespace mxlite::collective {

// Fills what a call with these parameters asks for, the process set and the peer first. Throws an
// index error if an axis is out of range.
using TermsFn = void (*)(const void* params, const TensorSpec& data, Terms& terms);

// Adds the operator and its kernel for a process that is alone.
void add(OpRegistry& ops, OpSchema schema, TermsFn terms);

bool is_collective(const OpSchema& op);
bool is_collective(const Kernel& kernel);

// Throws a shape error unless the array that shall get the result, if one is given, fits it.
void check_out(const OpSchema& op, const TensorSpec& spec, const InvokeOptions& options);

// Returns what a call with these parameters asks for.
Terms terms_of(const OpSchema& op, const void* params, const TensorSpec& data);
// Returns whether such a call reads its input and writes its result where they are, both of them
// contiguous: blocks of the ranks follow each other in memory, and no message is sent.
bool runs_in_place(const Terms& terms, const TensorSpec& data, const TensorSpec& result);

// Carries a call out together with other processes. The input is the operator's only one, `spec`
// the result's.
NDArrays run(Processes& processes, const OpSchema& op, const void* params, const NDArrayRef& input,
             const TensorSpec& spec, const InvokeOptions& options);

// A check of a call's arguments has failed on this rank: other ranks that make the call get an
// error. Does nothing for other operators.
void announce_failure(const OpSchema& op, const void* params, std::span<const NDArrayRef> inputs,
                      const char* reason) noexcept;

}  // namespace mxlite::collective
