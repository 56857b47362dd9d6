# Language, optimization and warning flags of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Both build types use the same optimization, so that measurements of a developer's build also apply to the wheel.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")

set(flags -Wall -Wextra -Wno-missing-field-initializers)
if(MXLITE_WERROR)
  list(APPEND flags -Werror)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND flags -march=x86-64-v3)  # AVX2 and FMA; module.cc refuses older processors
endif()
# These options let the compiler vectorize sqrt and selects. Results are still those of IEEE arithmetic, including NaN.
list(APPEND flags -fno-math-errno -fno-trapping-math)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
# Hardening of host code: stack protector, checked libc calls, control-flow protection, and relocations that are resolved and
# made read-only when a library is loaded.
if(NOT MXLITE_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong;-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fcf-protection=full>")
  endif()
endif()
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
# nvcc passes these flags on to the host compiler. In kernels, nvcc calls constexpr functions of the C++ library. Warnings do
# not become errors, because some are about code that nvcc generates. A call of a host function in a kernel is an error, because
# such a call would do nothing. Only .cc files use OpenMP.
set(cuda_flags ${flags} -Wno-parentheses -Wno-unknown-pragmas)
list(REMOVE_ITEM cuda_flags -Werror)
list(JOIN cuda_flags "," cuda_host_flags)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--Werror=cross-execution-space-call;-Xcompiler=${cuda_host_flags}>")

if(MXLITE_SANITIZE)
  if(NOT MXLITE_SANITIZE MATCHES "^(address|thread|package)$")
    message(FATAL_ERROR "MXLITE_SANITIZE=${MXLITE_SANITIZE}must be address, thread or package")
  endif()
  set(sanitizers ${MXLITE_SANITIZE})
  if(NOT MXLITE_SANITIZE STREQUAL "thread")
    set(sanitizers address,undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(NOT MXLITE_SANITIZE STREQUAL "package")
    set(MXLITE_LOWER_FOLDERS_ONLY ON)
  endif()
  # -O1 halves the time of these builds. -O3 causes false warnings about instrumented code.
  add_compile_options(-O1 -fsanitize=${sanitizers} -fno-omit-frame-pointer -Wno-unknown-pragmas)
  add_link_options(-fsanitize=${sanitizers})
endif()

include(CompilerCache)
