# Third-party libraries, as scripts/setup.sh installs them. Each missing one fails here with what to do.
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# ONNX's own package file looks for a Protobuf package file that Debian does not ship, so the target is made here.
find_package(Protobuf REQUIRED)
set(LATHE_ONNX_ROOT "" CACHE PATH "Where ONNX's C++ library was installed (scripts/setup.sh prints it)")
find_path(ONNX_INCLUDE_DIR onnx/onnx_pb.h HINTS ${LATHE_ONNX_ROOT}/include)
find_library(ONNX_LIBRARY onnx HINTS ${LATHE_ONNX_ROOT}/lib)
find_library(ONNX_PROTO_LIBRARY onnx_proto HINTS ${LATHE_ONNX_ROOT}/lib)
if(NOT ONNX_INCLUDE_DIR OR NOT ONNX_LIBRARY OR NOT ONNX_PROTO_LIBRARY)
  message(FATAL_ERROR "ONNX's C++ library was not found. Run scripts/setup.sh, or set LATHE_ONNX_ROOT.")
endif()
add_library(onnx_cpp INTERFACE)
target_include_directories(onnx_cpp SYSTEM INTERFACE ${ONNX_INCLUDE_DIR})
target_compile_definitions(onnx_cpp INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(onnx_cpp INTERFACE ${ONNX_LIBRARY} ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)

find_package(OpenVINO REQUIRED COMPONENTS Runtime)

include(LatheCuda)
