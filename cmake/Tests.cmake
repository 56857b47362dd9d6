# Creates one executable per tests/cpp/<subject>_test.cc. Sanitizer builds link the static libraries of the lower folders and
# contain only the tests of these folders. All other builds link libmxlite.so, like _core.
enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)

if(MXLITE_LOWER_FOLDERS_ONLY)
  get_property(libraries GLOBAL PROPERTY MXLITE_FOLDERS)
  list(APPEND libraries mxlite_kvstore_server)
  file(GLOB test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cpp/*_test.cc)
  list(FILTER test_sources INCLUDE REGEX "/(base|core|engine|io|kvstore|jobs|horovod)[a-z0-9_]*_test.cc$")
else()
  set(libraries mxlite mxlite_server DNNL::dnnl)
  file(GLOB test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cpp/*_test.cc)
  if(MXLITE_CUDA)  # nvcc compiles the sources, and the real CUDA runtime is used
    list(FILTER test_sources EXCLUDE REGEX "/cuda_runtime_test.cc$")
  else()
    list(FILTER test_sources EXCLUDE REGEX "/cuda_plugin_[a-z0-9_]*_test.cc$")
  endif()
endif()

# A library that only core_plugin_loader_test finds, and a library that needs it.
set(test_packages ${PROJECT_BINARY_DIR}/tests/packages)
add_library(mxlite_test_needed SHARED EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/cpp/plugin_loader/needed.cc)
set_target_properties(mxlite_test_needed PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${test_packages}/nvidia/some/lib)
add_library(mxlite_test_needy MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/cpp/plugin_loader/needy.cc)
set_target_properties(mxlite_test_needy PROPERTIES SKIP_BUILD_RPATH ON
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
target_link_libraries(mxlite_test_needy PRIVATE mxlite_test_needed)

if(NOT MXLITE_LOWER_FOLDERS_ONLY)
  # The NCCL communicator of the CUDA plug-in. It uses a fake NCCL between the processes of one host.
  set(fake_nccl ${PROJECT_SOURCE_DIR}/tests/cpp/fake_nccl)
  set(nccl_sources ${PROJECT_SOURCE_DIR}/cpp/kvstore/comm/nccl)
  add_library(mxlite_fake_nccl OBJECT EXCLUDE_FROM_ALL ${fake_nccl}/fake_nccl.cc ${fake_nccl}/mailboxes.cc
              ${fake_nccl}/runtime.cc ${nccl_sources}/call_watch.cc ${nccl_sources}/completions.cc
              ${nccl_sources}/nccl_call.cc ${nccl_sources}/nccl_communicator.cc)
  target_include_directories(mxlite_fake_nccl BEFORE PRIVATE ${fake_nccl}/include ${PROJECT_SOURCE_DIR})
endif()

# The emulator of blocks and threads. Code that is compiled with kernel_options calls it before accesses to memory.
set(emulated_gpu ${PROJECT_SOURCE_DIR}/tests/cpp/emulated_gpu)
set(emulator ${emulated_gpu}/access_hooks.cc ${emulated_gpu}/block.cc ${emulated_gpu}/emulator.cc
    ${emulated_gpu}/faults.cc ${emulated_gpu}/schedule.cc ${emulated_gpu}/shared_variables.cc ${emulated_gpu}/symbols.cc)
set(kernel_options -fsanitize=thread)

add_custom_target(cpp_tests)
foreach(source ${test_sources})
  get_filename_component(test ${source} NAME_WE)
  add_executable(${test} EXCLUDE_FROM_ALL ${source})
  set_target_properties(${test} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  # Silences false warnings of g++ 12 about variants, strings in vectors, and cuDNN's frontend.
  target_compile_options(${test} PRIVATE -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow)
  target_link_libraries(${test} PRIVATE ${libraries} GTest::gtest_main Threads::Threads)
  if(test MATCHES "^cuda_plugin_")
    target_link_libraries(${test} PRIVATE mxlite_cuda mxlite::cuda_libraries)
    # Links the whole plug-in, because its kernels register themselves and no test refers to a symbol of the plug-in.
    target_link_options(${test} PRIVATE -Wl,--no-as-needed)
    target_compile_definitions(${test} PRIVATE MXLITE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  endif()
  if(test MATCHES "^(symbol_bound_graph|predict)_test$")
    target_compile_definitions(${test} PRIVATE MXLITE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
    target_include_directories(${test} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  endif()
  if(test STREQUAL core_plugin_loader_test)
    add_dependencies(${test} mxlite_test_needy)
    target_compile_definitions(${test} PRIVATE MXLITE_TEST_PLUGIN="$<TARGET_FILE:mxlite_test_needy>"
                               MXLITE_TEST_PACKAGES="${test_packages}")
  endif()
  if(test MATCHES "^(rtc_chain|rtc_program|graph_generated_chain)_test$")
    target_sources(${test} PRIVATE ${PROJECT_SOURCE_DIR}/tests/cpp/fake_rtc/host_code.cc)
    target_compile_definitions(${test} PRIVATE
                               FAKE_NVRTC="${PROJECT_BINARY_DIR}/tests/libmxlite_fake_nvrtc.so")
    add_dependencies(${test} mxlite_fake_nvrtc)
  endif()
  if(test STREQUAL nccl_communicator_test)
    target_sources(${test} PRIVATE $<TARGET_OBJECTS:mxlite_fake_nccl>)
  endif()
  if(test MATCHES "^emulated_(gpu|blocks)_test$")
    target_sources(${test} PRIVATE ${emulator} ${emulated_gpu}/guarded_memory.cc ${emulated_gpu}/kernel_symbols.cc
                   ${emulated_gpu}/launch_errors.cc)
    target_include_directories(${test} BEFORE PRIVATE ${emulated_gpu}/include)
  endif()
  if(test STREQUAL emulated_blocks_test)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${kernel_options}")
  endif()
  if(test STREQUAL cuda_runtime_test)
    set(fake_cuda ${PROJECT_SOURCE_DIR}/tests/cpp/fake_cuda)
    set(on_fake_cuda ${PROJECT_SOURCE_DIR}/cpp/core/cuda/check.cc
        ${PROJECT_SOURCE_DIR}/cpp/core/cuda/code_loader.cc ${PROJECT_SOURCE_DIR}/cpp/core/cuda/cupti_tracer.cc
        ${PROJECT_SOURCE_DIR}/cpp/core/cuda/event_timer.cc ${PROJECT_SOURCE_DIR}/cpp/core/cuda/kernel_name.cc
        ${PROJECT_SOURCE_DIR}/cpp/core/cuda/pinned.cc
        ${PROJECT_SOURCE_DIR}/cpp/core/cuda/pool.cc ${PROJECT_SOURCE_DIR}/cpp/core/cuda/stream.cc
        ${PROJECT_SOURCE_DIR}/cpp/graph/cuda/recorder.cu)
    set_source_files_properties(${on_fake_cuda} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
    target_sources(${test} PRIVATE ${on_fake_cuda} ${fake_cuda}/runtime.cc ${fake_cuda}/driver.cc)
    target_include_directories(${test} BEFORE PRIVATE ${fake_cuda}/include)
    add_library(mxlite_fake_cupti MODULE EXCLUDE_FROM_ALL ${fake_cuda}/cupti.cc)
    target_include_directories(mxlite_fake_cupti BEFORE PRIVATE ${fake_cuda}/include)
    set_target_properties(mxlite_fake_cupti PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_dependencies(${test} mxlite_fake_cupti)
    target_compile_definitions(${test} PRIVATE MXLITE_TEST_CUPTI="$<TARGET_FILE:mxlite_fake_cupti>")
  endif()
  # The first start of a test that loads the CUDA libraries reads gigabytes from the disk, so it needs a longer timeout.
  gtest_discover_tests(${test} TEST_PREFIX ${test}. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 300
                       PROPERTIES TIMEOUT 600 ENVIRONMENT MXLITE_VERIFY_GRAPH=1)
  add_dependencies(cpp_tests ${test})
endforeach()

# A library that lets mx.gpu(0) work without a GPU. make test-cuda runs tests/python/gpu with it.
if(NOT MXLITE_LOWER_FOLDERS_ONLY)
  set(fake_gpu ${PROJECT_SOURCE_DIR}/tests/cpp/fake_gpu)
  set_source_files_properties(${fake_gpu}/plugin.cc PROPERTIES COMPILE_DEFINITIONS
                              MXLITE_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  # A substitute for NVRTC that compiles kernels for the emulator with the host's compiler.
  set(fake_rtc ${PROJECT_SOURCE_DIR}/tests/cpp/fake_rtc)
  add_library(mxlite_emulator SHARED EXCLUDE_FROM_ALL ${emulator})
  target_include_directories(mxlite_emulator BEFORE PRIVATE ${emulated_gpu}/include)
  target_link_libraries(mxlite_emulator PRIVATE mxlite)
  add_library(mxlite_fake_nvrtc SHARED EXCLUDE_FROM_ALL ${fake_rtc}/fake_nvrtc.cc)
  add_dependencies(mxlite_fake_nvrtc mxlite_emulator)
  target_compile_definitions(mxlite_fake_nvrtc PRIVATE FAKE_RTC_COMPILER="${CMAKE_CXX_COMPILER}"
                             FAKE_RTC_ROOT="${PROJECT_SOURCE_DIR}" FAKE_RTC_LIBRARIES="${PROJECT_BINARY_DIR}/tests")
  set_target_properties(mxlite_emulator mxlite_fake_nvrtc PROPERTIES
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  set_property(SOURCE ${fake_gpu}/plugin.cc APPEND PROPERTY COMPILE_DEFINITIONS
               FAKE_NVRTC="${PROJECT_BINARY_DIR}/tests/libmxlite_fake_nvrtc.so")

  add_library(mxlite_fake_gpu SHARED EXCLUDE_FROM_ALL ${fake_gpu}/plugin.cc ${fake_gpu}/kernels.cc
              ${fake_rtc}/host_code.cc $<TARGET_OBJECTS:mxlite_fake_nccl>)
  add_dependencies(mxlite_fake_gpu mxlite_test_needy)  # for tests/python/gpu/test_bad_gpus.py
  add_dependencies(cpp_tests mxlite_fake_gpu)

  set(stand_ins mxlite_fake_gpu)
  # Like the library above, but an emulator runs the kernels of cpp/ops/cuda. Used by make test-emulated.
  if(NOT MXLITE_CUDA)  # otherwise nvcc compiles these sources
    file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cpp/ops/cuda/*.cu
         ${PROJECT_SOURCE_DIR}/cpp/ops/cuda/*.cc)
    list(FILTER cuda_kernels EXCLUDE REGEX  # excludes cuDNN, cuBLAS, CUB
         "/(accumulate_rows|context|check|plans|dense_plan|gemm|gemm_preference|convolution_plan|convolution_graph|attention_plan|attention_graph|sort)\\.cc?u?$")
    add_library(mxlite_emulated_gpu SHARED EXCLUDE_FROM_ALL ${fake_gpu}/plugin.cc ${emulated_gpu}/kernels.cc
                ${emulator} ${emulated_gpu}/guarded_memory.cc ${emulated_gpu}/kernel_symbols.cc
                ${emulated_gpu}/backend.cc ${emulated_gpu}/attention.cc ${emulated_gpu}/int8.cc
                ${emulated_gpu}/launch_errors.cc ${cuda_kernels} ${fake_rtc}/host_code.cc
                $<TARGET_OBJECTS:mxlite_fake_nccl>)
    set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++;${kernel_options}")
    target_include_directories(mxlite_emulated_gpu BEFORE PRIVATE ${emulated_gpu}/include)
    target_compile_options(mxlite_emulated_gpu PRIVATE -O1 -w)
    target_link_options(mxlite_emulated_gpu PRIVATE -Wl,--no-undefined)
    list(APPEND stand_ins mxlite_emulated_gpu)
  endif()
  foreach(library ${stand_ins})
    set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${library} PRIVATE mxlite Threads::Threads)
    add_dependencies(${library} mxlite_fake_nvrtc)
  endforeach()
endif()

# Makes allocations of mxlite's libraries fail. tests/faults/out_of_memory.py preloads this library.
if(NOT MXLITE_SANITIZE)
  add_library(mxlite_fail_allocation SHARED EXCLUDE_FROM_ALL
              ${PROJECT_SOURCE_DIR}/tests/cpp/fail_allocation/interpose.cc)
  set_target_properties(mxlite_fail_allocation PROPERTIES
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_dependencies(cpp_tests mxlite_fail_allocation)
endif()

# Makes the network of parameter server jobs unreliable. tests/faults/server_faults.py preloads this library.
if(NOT MXLITE_SANITIZE)
  add_library(mxlite_lossy_frames SHARED EXCLUDE_FROM_ALL
              ${PROJECT_SOURCE_DIR}/tests/cpp/lossy_frames/preload.cc)
  set_target_properties(mxlite_lossy_frames PROPERTIES
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(mxlite_lossy_frames PRIVATE ${PROJECT_SOURCE_DIR})
  add_dependencies(cpp_tests mxlite_lossy_frames)
endif()

# Benchmarks of code that Python cannot call. The target cpp_benchmarks writes to build/<preset>/benchmarks.
if(NOT MXLITE_LOWER_FOLDERS_ONLY)
  add_custom_target(cpp_benchmarks)
  file(GLOB benchmark_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/benchmarks/*/*_bench.cc)
  foreach(source ${benchmark_sources})
    get_filename_component(benchmark ${source} NAME_WE)
    add_executable(${benchmark} EXCLUDE_FROM_ALL ${source})
    set_target_properties(${benchmark} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/benchmarks)
    target_include_directories(${benchmark} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${benchmark} PRIVATE ${libraries} ${MXLITE_SIMD} Threads::Threads)
    add_dependencies(cpp_benchmarks ${benchmark})
  endforeach()
endif()
