// protobuf and ONNX are built without AddressSanitizer, and vectors that they grow carry no marks.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
    return "detect_container_overflow=0:allocator_may_return_null=1";
}
