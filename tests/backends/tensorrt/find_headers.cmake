# Which TensorRT's headers a folder holds, and whether the backend is built with them: the project's modules against
# made-up SDKs.
# usage: cmake -DSOURCE=REPOSITORY -DWORK=FOLDER [-DGENERATOR=NAME -DMAKE_PROGRAM=FILE] -P find_headers.cmake
# WORK is emptied first.
cmake_minimum_required(VERSION 3.24)

set(generator "")
if(GENERATOR)
  set(generator -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM})
endif()
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/project/CMakeLists.txt "
cmake_minimum_required(VERSION 3.24)
project(find NONE)
list(APPEND CMAKE_MODULE_PATH ${SOURCE}/cmake)
include(LatheTensorRT)
file(WRITE \${CMAKE_BINARY_DIR}/found \"\${LATHE_HAS_TENSORRT} \${TensorRT_FLAVOUR} \${TensorRT_VERSION} \${tensorrt_missing}\")
if(TARGET TensorRT::headers)
  get_target_property(folders TensorRT::headers INTERFACE_INCLUDE_DIRECTORIES)
  file(WRITE \${CMAKE_BINARY_DIR}/folders \"\${folders}\")
endif()
")

# NAME: of the case. VERSION_TEXT: NvInferVersion.h; "-": none. EXPECTED: how LATHE_HAS_TENSORRT, product and version, and
# where there is no backend the reason, read together. Further arguments go to cmake.
function(expect name version_text expected)
  set(sdk ${WORK}/${name})
  file(WRITE ${sdk}/include/NvInfer.h "")
  if(NOT name MATCHES "no-parser")
    file(WRITE ${sdk}/include/NvOnnxParser.h "")
  endif()
  if(NOT version_text STREQUAL "-")
    file(WRITE ${sdk}/include/NvInferVersion.h "${version_text}")
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${WORK}/project -B ${sdk}/build ${generator} -DTENSORRT_ROOT=${sdk} -DLATHE_HAS_CUDA=ON
            # Only what is made up here counts, whatever this machine has.
            -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF ${ARGN}
    OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE failed)
  if(failed)
    message(SEND_ERROR "${name}: cmake failed\n${output}")
    return()
  endif()
  file(READ ${sdk}/build/found found)
  string(STRIP "${found}" found)
  if(NOT found MATCHES "^${expected}")
    message(SEND_ERROR "${name}: found \"${found}\", expected \"${expected}\"")
  endif()
  if(found MATCHES "^ON")
    file(READ ${sdk}/build/folders folders)
    if(NOT folders MATCHES "^${sdk}/include")
      message(SEND_ERROR "${name}: headers in ${folders}")
    endif()
  endif()
endfunction()

# Up to 10.12 the numbers stand at the macros themselves, as in 10.3; later behind the product's name.
expect(trt-10.3 "
#define NV_TENSORRT_MAJOR 10 //!< TensorRT major version.
#define NV_TENSORRT_MINOR 3  //!< TensorRT minor version.
#define NV_TENSORRT_PATCH 0  //!< TensorRT patch version.
#define NV_TENSORRT_BUILD 26
#define NV_TENSORRT_LWS_MAJOR 0
" "ON TensorRT 10\\.3\\.0")
function(by_product name major minor patch product expected)
  set(flavour "")
  foreach(part MAJOR=${major} MINOR=${minor} PATCH=${patch} BUILD=99)
    string(REPLACE "=" ";" pair ${part})
    list(GET pair 0 key)
    list(GET pair 1 value)
    string(APPEND flavour "#define TRT_${key}_${product} ${value}\n"
                          "#define NV_TENSORRT_${key} TRT_${key}_${product} //!< TensorRT version.\n")
  endforeach()
  expect(${name} "${flavour}#define NV_TENSORRT_LWS_MAJOR 0\n" "${expected}" ${ARGN})
endfunction()
by_product(trt-10.16 10 16 1 ENTERPRISE "ON TensorRT 10\\.16\\.1")
by_product(trt-11.1 11 1 0 ENTERPRISE "ON TensorRT 11\\.1\\.0")
by_product(rtx-1.7 1 7 1 RTX "ON TensorRT-RTX 1\\.7\\.1")

# What is not built says why.
by_product(trt-8.6 8 6 1 ENTERPRISE "OFF TensorRT 8\\.6\\.1 TensorRT 8\\.6\\.1 is older than 10")
by_product(without-cuda 10 16 1 ENTERPRISE "OFF .* it was built without CUDA" -DLATHE_HAS_CUDA=OFF)
by_product(sanitized 10 16 1 ENTERPRISE "OFF *it was built with sanitizers" -DLATHE_SANITIZE=ON)
by_product(off 10 16 1 ENTERPRISE "OFF *it was switched off" -DLATHE_TENSORRT=OFF)
by_product(no-parser 10 16 1 ENTERPRISE "OFF .*TensorRT's headers were not found")
expect(no-version "-" "OFF *TensorRT's headers were not found")
expect(empty-version "" "OFF .*TensorRT's headers were not found")
