# libmxlite_cuda.so contains everything in folders named cuda. It is installed beside libmxlite.so, which loads it if the
# machine has a driver. It is one library, because kernels, streams and graphs need each other.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cpp/*.cc ${PROJECT_SOURCE_DIR}/cpp/*.cu)
list(FILTER cuda_sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/cpp/(.*/)?(cuda|nccl)/")
if(NOT MXLITE_OPENCV)
  list(FILTER cuda_sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/cpp/io/")
endif()
add_library(mxlite_cuda SHARED ${cuda_sources})
set_target_properties(mxlite_cuda PROPERTIES LINKER_LANGUAGE CXX CUDA_SEPARABLE_COMPILATION OFF)
# Silences a false warning of g++ 12 about a vector in cuDNN's frontend.
set_source_files_properties(${PROJECT_SOURCE_DIR}/cpp/ops/cuda/nn/attention_graph.cc PROPERTIES
                            COMPILE_OPTIONS -Wno-stringop-overflow)
target_compile_definitions(mxlite_cuda PRIVATE
                           MXLITE_CUDA_ARCHITECTURE_NAMES="${MXLITE_CUDA_ARCHITECTURE_NAMES}")
target_link_libraries(mxlite_cuda PRIVATE mxlite mxlite::cuda_libraries Threads::Threads)
mxlite_export_by_map(mxlite_cuda)
target_link_options(mxlite_cuda PRIVATE -Wl,--no-undefined)
set(cuda_rpath "")
foreach(library ${MXLITE_CUDA_LIBRARIES})
  get_filename_component(folder ${library} DIRECTORY)
  list(APPEND cuda_rpath ${folder})
endforeach()
list(REMOVE_DUPLICATES cuda_rpath)
# An installed plug-in uses the CUDA libraries of pip install mxlite[cuda], or otherwise those that the loader finds.
set_target_properties(mxlite_cuda PROPERTIES
  BUILD_RPATH "$ORIGIN;${cuda_rpath}"
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../mxlite;$ORIGIN/../nvidia/cu13/lib;$ORIGIN/../nvidia/cudnn/lib;$ORIGIN/../nvidia/nccl/lib;/usr/local/cuda/lib64")
list(APPEND MXLITE_LIBRARIES mxlite_cuda)
if(NOT SKBUILD)
  # tools/release/build.py packs this file into the wheel mxlite-cuda13.
  install(TARGETS mxlite_cuda LIBRARY DESTINATION . COMPONENT cuda)
endif()
