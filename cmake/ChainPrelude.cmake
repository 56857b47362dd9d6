# Creates chain_headers.inc, which holds the functors' headers as one string, for kernels that are compiled at run time
# (cpp/ops/pointwise/chain_source.cc). NVRTC has no standard library, so #include lines are removed. chain_standard.inc defines
# what the headers use of the library, in a namespace that does not conflict with NVRTC's own declarations.
set(chain_prelude_headers cpp/base/host_device.h cpp/core/half.h cpp/ops/pointwise/math.h
    cpp/ops/pointwise/unary_functors.h cpp/ops/pointwise/binary_functors.h
    cpp/ops/pointwise/activation_functors.h)
set(text "")
foreach(header ${chain_prelude_headers})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
  file(READ ${PROJECT_SOURCE_DIR}/${header} content)
  string(REGEX REPLACE "#(include|pragma once)[^\n]*\n" "" content "${content}")
  string(REPLACE "std::" "standard::" content "${content}")
  string(APPEND text "R\"code(${content})code\"\n")
endforeach()
set(generated ${PROJECT_BINARY_DIR}/generated)
file(WRITE ${generated}/chain_headers.inc.new "${text}")
configure_file(${generated}/chain_headers.inc.new ${generated}/chain_headers.inc COPYONLY)
set_source_files_properties(${PROJECT_SOURCE_DIR}/cpp/ops/pointwise/chain_source.cc PROPERTIES
                            INCLUDE_DIRECTORIES ${generated})
