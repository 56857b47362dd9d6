# libmxlite.so (all folders) and _core (the bindings). Both are in the package mxlite.
get_property(folders GLOBAL PROPERTY MXLITE_FOLDERS)

# The map exports only namespace mxlite and the C functions MX* and mxlite_predict_*. _core, the plug-ins and the tests share
# the statics and types of this namespace. Templates of oneDNN, OpenCV and the C++ library that are instantiated here do not
# conflict with other copies in the process. Calls inside the library are direct.
function(mxlite_export_by_map target)
  set(map ${PROJECT_SOURCE_DIR}/cmake/libmxlite.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${map})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

add_library(mxlite SHARED)
set_target_properties(mxlite PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(mxlite PUBLIC ${PROJECT_SOURCE_DIR})
mxlite_export_by_map(mxlite)
target_link_options(mxlite PRIVATE -Wl,-Bsymbolic-functions -Wl,--no-undefined)
get_property(foreign GLOBAL PROPERTY MXLITE_FOREIGN)
target_link_libraries(mxlite PRIVATE ${foreign} Threads::Threads)
foreach(folder ${folders})
  target_sources(mxlite PRIVATE $<TARGET_OBJECTS:${folder}>)
endforeach()
set(MXLITE_LIBRARIES mxlite)

set(gil_source ${PROJECT_SOURCE_DIR}/cpp/python/gil.cc)
# Completes the extension module of one Python version with sources, flags and libraries.
function(mxlite_bindings target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cpp/python/*.cc)
  target_sources(${target} PRIVATE ${sources})
  # Default visibility makes inline statics of our headers one object in _core and libmxlite. The map keeps all other symbols
  # private. -Wno-attributes is needed, because pybind11 hides its own types and our members of these types would cause
  # warnings.
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET default)
  mxlite_export_by_map(${target})
  target_compile_options(${target} PRIVATE -Wno-attributes
                         -include ${PROJECT_SOURCE_DIR}/cpp/python/vectorcall.h)
  if(MXLITE_GROUPED)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
  target_link_libraries(${target} PRIVATE mxlite)
  # Functions of Python in which threads sleep forever when the interpreter ends. See gil.h.
  file(STRINGS ${gil_source} parking REGEX "^PARKS\\(")
  foreach(line ${parking})
    string(REGEX REPLACE "^PARKS\\([^,]+, ([A-Za-z_]+),.*" "\\1" name "${line}")
    target_link_options(${target} PRIVATE -Wl,--wrap=${name})
  endforeach()
endfunction()

if(MXLITE_PYTHON)
  pybind11_add_module(_core NO_EXTRAS)
  mxlite_bindings(_core)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gil_source})
  if(MXLITE_SANITIZE)
    # pthread_exit throws no object, so the handler's reference is null. No code reads the reference.
    set_source_files_properties(${gil_source} PROPERTIES COMPILE_OPTIONS -fno-sanitize=null)
  endif()
  list(APPEND MXLITE_LIBRARIES _core)

  # tools/release builds this target. It contains _core for other versions of Python, beside the same libmxlite.so.
  add_custom_target(bindings DEPENDS _core)
  foreach(interpreter ${MXLITE_RELEASE_PYTHONS})
    execute_process(COMMAND ${interpreter} -c
                    "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'), sep=';')"
                    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    list(GET answer 0 include_dir)
    list(GET answer 1 suffix)
    set(target _core${suffix})
    add_library(${target} MODULE EXCLUDE_FROM_ALL)
    mxlite_bindings(${target})
    target_include_directories(${target} SYSTEM PRIVATE ${pybind11_INCLUDE_DIR} ${include_dir})
    set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME _core SUFFIX ${suffix}
                          LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bindings
                          BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
    add_dependencies(bindings ${target})
  endforeach()
endif()

if(MXLITE_CUDA)
  include(CudaPlugin)
endif()
# A separate library, which only jobs with a parameter server load.
add_library(mxlite_server SHARED $<TARGET_OBJECTS:mxlite_kvstore_server>)
set_target_properties(mxlite_server PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(mxlite_server PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(mxlite_server PUBLIC mxlite Threads::Threads)
mxlite_export_by_map(mxlite_server)
target_link_options(mxlite_server PRIVATE -Wl,--no-undefined)
list(APPEND MXLITE_LIBRARIES mxlite_server)
# A separate library, because importing mxlite must work without MPI. The wheel does not contain libmpi.
if(MXLITE_MPI)
  file(GLOB mpi_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cpp/kvstore/comm/mpi/*.cc)
  add_library(mxlite_mpi MODULE ${mpi_sources})
  target_include_directories(mxlite_mpi SYSTEM PRIVATE ${MXLITE_MPI_INCLUDE_DIR})
  target_link_libraries(mxlite_mpi PRIVATE mxlite ${MXLITE_MPI_LIBRARY} Threads::Threads)
  mxlite_export_by_map(mxlite_mpi)
  list(APPEND MXLITE_LIBRARIES mxlite_mpi)
endif()

set(output ${PROJECT_BINARY_DIR}/lib)
if(MXLITE_PYTHON)
  set(output ${PROJECT_SOURCE_DIR}/python/mxlite)
endif()
set(MXLITE_OUTPUT_DIRECTORY ${output} CACHE PATH "Where the libraries go")
get_filename_component(dnnl_dir ${MXLITE_DNNL_LIBRARY} DIRECTORY)
set(core_libraries ${MXLITE_LIBRARIES})
list(REMOVE_ITEM core_libraries mxlite_cuda)
set_target_properties(${MXLITE_LIBRARIES} PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY ${MXLITE_OUTPUT_DIRECTORY})
set_target_properties(${core_libraries} PROPERTIES
  BUILD_RPATH "$ORIGIN;${dnnl_dir}"
  INSTALL_RPATH "$ORIGIN")
if(MXLITE_MPI)
  # The path from site-packages/mxlite to the environment's lib folder, which contains the PyPI package of Open MPI.
  get_filename_component(mpi_dir ${MXLITE_MPI_LIBRARY} DIRECTORY)
  set_target_properties(mxlite_mpi PROPERTIES BUILD_RPATH "$ORIGIN;${mpi_dir}"
                        INSTALL_RPATH "$ORIGIN;$ORIGIN/../../..")
endif()
if(SKBUILD)
  # A wheel's build must not write into the source tree.
  set_target_properties(${MXLITE_LIBRARIES} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS ${MXLITE_LIBRARIES} LIBRARY DESTINATION mxlite)
  # The package contains oneDNN under the name that the loader searches for.
  file(REAL_PATH ${MXLITE_DNNL_LIBRARY} dnnl_file)
  install(FILES ${dnnl_file} DESTINATION mxlite RENAME libdnnl.so.3)
  # Installs files for C and C++ programs. mxlite/config.py prints their paths.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include DESTINATION mxlite)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/mxliteConfig.cmake DESTINATION mxlite/cmake)
endif()
