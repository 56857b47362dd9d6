# find_package(mxlite) defines the target mxlite::mxlite: libmxlite.so and its headers for C and C++. This file is in
# mxlite/cmake of an installed wheel and in cmake of the source tree.
get_filename_component(_mxlite_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
find_library(_mxlite_library mxlite PATHS "${_mxlite_root}" "${_mxlite_root}/python/mxlite" NO_CACHE NO_DEFAULT_PATH)
if(NOT _mxlite_library)
  set(mxlite_FOUND FALSE)
  set(mxlite_NOT_FOUND_MESSAGE "libmxlite.so must be in ${_mxlite_root}")
  return()
endif()
if(NOT TARGET mxlite::mxlite)
  add_library(mxlite::mxlite SHARED IMPORTED)
  set_target_properties(mxlite::mxlite PROPERTIES IMPORTED_LOCATION "${_mxlite_library}"
                        INTERFACE_INCLUDE_DIRECTORIES "${_mxlite_root}/include")
endif()
