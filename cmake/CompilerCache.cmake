# Compiles through ccache if it is installed. The cache keys contain paths relative to the checkout, so that all checkouts on a
# machine share compiled objects.
find_program(CCACHE ccache)
get_filename_component(ccache_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
set(CCACHE_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${ccache_root} CCACHE_NOHASHDIR=1 ${CCACHE})
if(CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_LAUNCHER})
endif()
