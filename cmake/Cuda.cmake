# MXLITE_CUDA=ON: nvcc >= 13, CUDA runtime, NVRTC, cuBLAS, cuDNN 9, its header-only frontend, NCCL. They come
# from a toolkit or from PyPI packages (tools/requirements-cuda.txt), whatever is found first in
#   MXLITE_CUDA_ROOT, the folder above nvcc, /usr/local/cuda, site-packages/nvidia/*
# A component that is missing is an error that names it. Target: mxlite::cuda_libraries.
set(MXLITE_CUDA_ARCHITECTURES "90-real" CACHE STRING
    "GPU architectures as CMake spells them; 80-real;90-real;100 for a release")
set(MXLITE_CUDA_ROOT "" CACHE PATH "Prefix of the CUDA toolkit")
set(MXLITE_CUDNN_FRONTEND_ROOT "$ENV{MXLITE_CUDNN_FRONTEND_ROOT}" CACHE PATH
    "Folder with include/cudnn_frontend.h")

set(site_packages "")
if(MXLITE_PYTHON)
  execute_process(COMMAND ${Python_EXECUTABLE} -c
                  "import sysconfig; print(sysconfig.get_path('purelib'))"
                  OUTPUT_VARIABLE site_packages OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(cuda_pypi ${site_packages}/nvidia/cu13)

find_program(MXLITE_NVCC nvcc HINTS ${MXLITE_CUDA_ROOT}/bin
             PATHS /usr/local/cuda/bin ${cuda_pypi}/bin)
if(NOT MXLITE_NVCC)
  message(FATAL_ERROR "MXLITE_CUDA=ON: nvcc not found; install the CUDA 13 toolkit, or "
                      "pip install -r tools/requirements-cuda.txt, or set MXLITE_CUDA_ROOT")
endif()
file(REAL_PATH ${MXLITE_NVCC} nvcc_file)
get_filename_component(nvcc_root ${nvcc_file}/../.. ABSOLUTE)
set(cuda_roots ${MXLITE_CUDA_ROOT} ${nvcc_root} ${nvcc_root}/../cudnn ${nvcc_root}/../nccl /usr/local/cuda ${cuda_pypi} ${site_packages}/nvidia/cudnn
    ${site_packages}/nvidia/nccl)

# mxlite_cuda_find(<variable> <header> <library>...)
# Finds the header and the libraries. The libraries of PyPI packages have only a name with a version.
set(cuda_missing "")
set(MXLITE_CUDA_LIBRARIES "")
set(MXLITE_CUDA_INCLUDES "")
function(mxlite_cuda_find name header)
  find_path(MXLITE_${name}_INCLUDE ${header} HINTS ${cuda_roots} PATH_SUFFIXES include NO_DEFAULT_PATH)
  if(NOT MXLITE_${name}_INCLUDE)
    list(APPEND cuda_missing ${header})
  else()
    list(APPEND MXLITE_CUDA_INCLUDES ${MXLITE_${name}_INCLUDE})
  endif()
  foreach(library ${ARGN})
    string(REGEX REPLACE "\\.so.*" "" short ${library})
    find_library(MXLITE_${short} NAMES ${library} ${short}.so HINTS ${cuda_roots}
                 PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
    if(NOT MXLITE_${short})
      list(APPEND cuda_missing ${library})
    else()
      list(APPEND MXLITE_CUDA_LIBRARIES ${MXLITE_${short}})
    endif()
  endforeach()
  foreach(list cuda_missing MXLITE_CUDA_LIBRARIES MXLITE_CUDA_INCLUDES)
    set(${list} "${${list}}" PARENT_SCOPE)
  endforeach()
endfunction()
mxlite_cuda_find(CUDART cuda_runtime_api.h libcudart.so.13)
mxlite_cuda_find(CUBLAS cublasLt.h libcublas.so.13 libcublasLt.so.13)
mxlite_cuda_find(CUDNN cudnn.h libcudnn.so.9)
mxlite_cuda_find(NCCL nccl.h libnccl.so.2)
mxlite_cuda_find(NVRTC nvrtc.h libnvrtc.so.13)  # some versions of the cuDNN frontend call NVRTC
find_path(MXLITE_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h
          HINTS ${MXLITE_CUDNN_FRONTEND_ROOT} ${site_packages} ${cuda_roots} PATH_SUFFIXES include)
if(NOT MXLITE_CUDNN_FRONTEND_INCLUDE)
  list(APPEND cuda_missing "cudnn_frontend.h (pip install nvidia-cudnn-frontend)")
endif()
if(cuda_missing)
  string(REPLACE ";" ", " cuda_missing "${cuda_missing}")
  message(FATAL_ERROR "MXLITE_CUDA=ON: not found: ${cuda_missing}; install the CUDA 13 toolkit with cuDNN 9 "
                      "and NCCL, or pip install -r tools/requirements-cuda.txt, or set MXLITE_CUDA_ROOT")
endif()

set(CMAKE_CUDA_COMPILER ${MXLITE_NVCC})
set(CMAKE_CUDA_ARCHITECTURES ${MXLITE_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # linked below as a shared library, because cuBLAS and cuDNN use the same library
set(CMAKE_CUDA_FLAGS_INIT "-L${nvcc_root}/lib -L${nvcc_root}/lib64")
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR "MXLITE_CUDA=ON: ${MXLITE_NVCC} is nvcc ${CMAKE_CUDA_COMPILER_VERSION}; version 13 or later is needed")
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc's option for C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -DNDEBUG")
if(CCACHE AND NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_LAUNCHER})
endif()

list(REMOVE_DUPLICATES MXLITE_CUDA_INCLUDES)
add_library(mxlite_cuda_libraries INTERFACE)
add_library(mxlite::cuda_libraries ALIAS mxlite_cuda_libraries)
target_include_directories(mxlite_cuda_libraries SYSTEM INTERFACE ${MXLITE_CUDA_INCLUDES}
                                                                  ${MXLITE_CUDNN_FRONTEND_INCLUDE})
target_link_libraries(mxlite_cuda_libraries INTERFACE ${MXLITE_CUDA_LIBRARIES})

# Converts "90-real;100" to "9.0, 10.0" for error messages.
set(names "")
foreach(architecture ${MXLITE_CUDA_ARCHITECTURES})
  string(REGEX REPLACE "^([0-9]+)([0-9])[a-z]?(-.*)?$" "\\1.\\2" name ${architecture})
  list(APPEND names ${name})
endforeach()
string(REPLACE ";" ", " MXLITE_CUDA_ARCHITECTURE_NAMES "${names}")
