// Collectives through MPI, for communication between hosts. Every call starts without blocking and
// is polled until the deadline. All calls are made on the thread that uses MPI.
#pragma once
#include <mpi.h>

#include <memory>

#include "cpp/kvstore/comm/communicator.h"

namespace mxlite::mpi {

// Throws a communicator error with the text of the call and MPI's message.
void check(int code, const char* call);
#define MX_MPI(call) ::mxlite::mpi::check((call), #call)

// Owns a communicator. The destructor frees the communicator unless MPI has ended.
class OwnedComm {
 public:
  OwnedComm() = default;
  explicit OwnedComm(MPI_Comm comm);
  OwnedComm(OwnedComm&& o) noexcept : comm_(o.comm_) { o.comm_ = MPI_COMM_NULL; }
  OwnedComm& operator=(OwnedComm&& o) noexcept {
    std::swap(comm_, o.comm_);
    return *this;
  }
  ~OwnedComm();
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// Revokes all owned communicators. Other ranks that wait for this rank then get an error.
void revoke_all() noexcept;

// The two functions return copies of communicators. Errors in such a copy are returned to the
// caller instead of ending the process.
OwnedComm duplicate(MPI_Comm comm);
OwnedComm split(MPI_Comm comm, int color, int key);

std::unique_ptr<Communicator> make_mpi_communicator(OwnedComm comm);

}  // namespace mxlite::mpi
