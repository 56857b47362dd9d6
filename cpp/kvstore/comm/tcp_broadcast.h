// A few bytes from the first process to all others, through one socket: how groups of GPUs find
// each other where there is no MPI.
#pragma once
#include <cstddef>
#include <string>

namespace mxlite {

struct TcpAddress {
  std::string host;  // name or number
  int port = 0;
};

// Process 0 listens at the address and gives `data` to each of the others, which connect until it
// is there. Throws a communicator error after MXLITE_COMM_TIMEOUT, naming the processes that have
// not come.
void tcp_broadcast(const TcpAddress& address, int process, int processes, void* data, size_t bytes);

}  // namespace mxlite
