# SPDX-License-Identifier: Apache-2.0
# Decides what is built of the GPU side; nothing here needs CUDA to be installed.
#   EVENER_CUDA          AUTO, ON or OFF: the plug-in libevener_cuda.so, by nvcc. AUTO: when it is found
#   EVENER_CUDA_BUILD    result: whether it is built
#   EVENER_CUDA_HEADERS  result: folder of the CUDA headers, empty when there are none; with them the
#                        tests build the same sources by the C++ compiler (tests/support/hostcuda)
# evener_cuda_options(target)            warnings and language of files that nvcc compiles
# evener_host_kernels(variable a.cu ...) C++ files, one per kernel file, that include them

set(EVENER_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO, ON or OFF")
set_property(CACHE EVENER_CUDA PROPERTY STRINGS AUTO ON OFF)
set(EVENER_CUDA_ARCHITECTURES "75-real;80-real;90" CACHE STRING
    "GPU architectures of the CUDA plug-in")

set(EVENER_CUDA_BUILD OFF)
if(NOT EVENER_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_NVCC_EXECUTABLE)
    set(EVENER_CUDA_BUILD ON)
  elseif(NOT EVENER_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "EVENER_CUDA is ON and no nvcc was found; set CUDAToolkit_ROOT")
  endif()
endif()
find_path(EVENER_CUDA_HEADERS_FOLDER cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(EVENER_CUDA_HEADERS_FOLDER)
set(EVENER_CUDA_HEADERS "")
if(EVENER_CUDA_HEADERS_FOLDER)
  set(EVENER_CUDA_HEADERS ${EVENER_CUDA_HEADERS_FOLDER})
endif()

if(EVENER_CUDA_BUILD)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  set(CMAKE_CUDA_ARCHITECTURES ${EVENER_CUDA_ARCHITECTURES})
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  message(STATUS "CUDA plug-in: built by nvcc ${CUDAToolkit_VERSION} for "
                 "${EVENER_CUDA_ARCHITECTURES}")
elseif(EVENER_CUDA STREQUAL "OFF")
  message(STATUS "CUDA plug-in: left out (EVENER_CUDA is OFF)")
else()
  message(STATUS "CUDA plug-in: left out (no nvcc)")
endif()
if(NOT EVENER_CUDA_HEADERS)
  message(STATUS "CUDA sources on the host, for the tests: left out (no CUDA headers)")
endif()

function(evener_cuda_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>)
  if(EVENER_WERROR)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings -Xcompiler=-Werror>)
  endif()
endfunction()

function(evener_host_kernels variable)
  set(sources "")
  foreach(kernel IN LISTS ARGN)
    get_filename_component(name ${kernel} NAME_WE)
    set(source ${CMAKE_CURRENT_BINARY_DIR}/host/${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${kernel}\"\n")
    list(APPEND sources ${source})
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
