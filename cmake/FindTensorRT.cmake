# TensorRT's or TensorRT-RTX's C++ headers; the libraries are opened at run time, so none is looked for.
# In: TENSORRT_ROOT (CMake or environment), the folder of an SDK (its include/ holds NvInfer.h).
# Out: TensorRT_FOUND, TensorRT_FLAVOUR (TensorRT or TensorRT-RTX), TensorRT_VERSION, target TensorRT::headers.
set(TENSORRT_ROOT "" CACHE PATH "Folder of TensorRT's or TensorRT-RTX's SDK (its include/ holds NvInfer.h)")
find_path(TensorRT_INCLUDE_DIR NvInfer.h
  HINTS ${TENSORRT_ROOT} $ENV{TENSORRT_ROOT} PATH_SUFFIXES include include/x86_64-linux-gnu)
find_path(TensorRT_PARSER_INCLUDE_DIR NvOnnxParser.h HINTS ${TensorRT_INCLUDE_DIR} ${TENSORRT_ROOT} PATH_SUFFIXES include)
set(TensorRT_VERSION)
set(TensorRT_FLAVOUR)
if(TensorRT_INCLUDE_DIR AND EXISTS ${TensorRT_INCLUDE_DIR}/NvInferVersion.h)
  file(READ ${TensorRT_INCLUDE_DIR}/NvInferVersion.h text)
  if(text MATCHES "TRT_MAJOR_RTX +[0-9]")
    set(TensorRT_FLAVOUR TensorRT-RTX)
    set(suffix RTX)
  else()
    set(TensorRT_FLAVOUR TensorRT)
    set(suffix ENTERPRISE)
  endif()
  foreach(part MAJOR MINOR PATCH)
    # Before 10.13 the numbers stand at NV_TENSORRT_… itself.
    if(text MATCHES "(TRT_${part}_${suffix}|NV_TENSORRT_${part}) +([0-9]+)")
      list(APPEND TensorRT_VERSION ${CMAKE_MATCH_2})
    endif()
  endforeach()
  list(JOIN TensorRT_VERSION . TensorRT_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TensorRT REQUIRED_VARS TensorRT_INCLUDE_DIR TensorRT_PARSER_INCLUDE_DIR TensorRT_VERSION
                                  VERSION_VAR TensorRT_VERSION)
if(TensorRT_FOUND AND NOT TARGET TensorRT::headers)
  add_library(TensorRT::headers INTERFACE IMPORTED)
  target_include_directories(TensorRT::headers SYSTEM INTERFACE ${TensorRT_INCLUDE_DIR} ${TensorRT_PARSER_INCLUDE_DIR})
endif()
mark_as_advanced(TensorRT_INCLUDE_DIR TensorRT_PARSER_INCLUDE_DIR)
