# Whether the CUDA engine is built, and its flags. Sets LATHE_HAS_CUDA; with it the targets lathe_cuda_runtime (headers
# and the static CUDA runtime) and, where its folder is known, cudnn_frontend (headers alone).
# The vendor's libraries (cuDNN, cuBLASLt, NVML) are opened at run time and the driver is found by the runtime, so the
# programs start on machines that have none of them.
# pip passes no options: there the environment says what scripts/setup.sh was told.
set(cuda_default AUTO)
if(DEFINED ENV{LATHE_CUDA})
  set(cuda_default $ENV{LATHE_CUDA})
endif()
set(LATHE_CUDA ${cuda_default} CACHE STRING "CUDA engine: AUTO (if nvcc >= 12.8 is found), ON, OFF")
set_property(CACHE LATHE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(LATHE_CUDA_ARCHS hopper CACHE STRING "hopper: sm_90a and PTX of sm_80; full: also sm_80 sm_86 sm_89 sm_100 sm_120")
set_property(CACHE LATHE_CUDA_ARCHS PROPERTY STRINGS hopper full)
set(LATHE_CUDNN_FRONTEND_ROOT "$ENV{LATHE_CUDNN_FRONTEND_ROOT}" CACHE PATH
  "Folder with cuDNN frontend's include/ (scripts/setup.sh exports it)")

set(LATHE_HAS_CUDA OFF)
if(NOT LATHE_CUDA STREQUAL OFF AND NOT LATHE_SANITIZE)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real) # CMake 3.25's own default does not exist in CUDA 13
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25.1 does not know that nvcc has C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.8)
      set(cuda_missing "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is older than 12.8")
    else()
      find_package(CUDAToolkit 12.8)
      find_path(LATHE_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/include /usr/local/include)
      find_path(LATHE_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/include)
      if(NOT TARGET CUDA::cudart_static)
        set(cuda_missing "the CUDA toolkit has no static runtime")
      elseif(NOT LATHE_CUDNN_INCLUDE_DIR OR NOT LATHE_CUBLASLT_INCLUDE_DIR)
        set(cuda_missing "cudnn.h or cublasLt.h was not found (set LATHE_CUDNN_INCLUDE_DIR, LATHE_CUBLASLT_INCLUDE_DIR)")
      else()
        set(LATHE_HAS_CUDA ON)
      endif()
    endif()
  else()
    set(cuda_missing "nvcc was not found")
  endif()
  if(NOT LATHE_HAS_CUDA)
    if(LATHE_CUDA STREQUAL ON)
      message(FATAL_ERROR "LATHE_CUDA=ON, but ${cuda_missing}.")
    endif()
    message(STATUS "No CUDA engine: ${cuda_missing}")
  endif()
endif()

if(LATHE_HAS_CUDA)
  message(STATUS "CUDA engine: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${LATHE_CUDA_ARCHS}")
  add_library(lathe_cuda_runtime INTERFACE)
  target_include_directories(lathe_cuda_runtime SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${LATHE_CUDNN_INCLUDE_DIR}
                                                                 ${LATHE_CUBLASLT_INCLUDE_DIR})
  target_link_libraries(lathe_cuda_runtime INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
  if(LATHE_CUDNN_FRONTEND_ROOT)
    add_library(cudnn_frontend INTERFACE)
    target_include_directories(cudnn_frontend SYSTEM INTERFACE ${LATHE_CUDNN_FRONTEND_ROOT}/include)
  endif()
  set(lathe_cuda_architectures_sm90 90a-real)
  if(LATHE_CUDA_ARCHS STREQUAL full)
    set(lathe_cuda_architectures 80-real 86-real 89-real 90a-real 100-real 120-real 80-virtual)
  else()
    set(lathe_cuda_architectures 90a-real 80-virtual)
  endif()
endif()

# lathe_cuda_library(NAME ARCHITECTURES … SOURCES …): static library of .cu files.
function(lathe_cuda_library name)
  cmake_parse_arguments(ARG "" "" "ARCHITECTURES;SOURCES" ${ARGN})
  add_library(lathe_${name} STATIC ${ARG_SOURCES})
  target_include_directories(lathe_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(lathe_${name} PRIVATE lathe_cuda_runtime)
  # 2908: lambdas that take *this with [=]. Each program carries every kernel: packed tightly, without line tables
  # (CUDAFLAGS=-lineinfo brings those back for a profiler), they take a sixth of the space.
  target_compile_options(lathe_${name} PRIVATE --expt-relaxed-constexpr --compress-mode=size
                                               -Xcompiler=-Wall,-Wextra --diag-suppress=2908)
  set_target_properties(lathe_${name} PROPERTIES
    CUDA_ARCHITECTURES "${ARG_ARCHITECTURES}" CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
    POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINKER_LANGUAGE CXX
    UNITY_BUILD OFF) # From CMake 3.31 on LATHE_UNITY would join kernels, whose names are each file's own.
endfunction()
