#include "triton/requests.hpp"

#include <chrono>

namespace lathe::triton {

namespace {

Error in_gpu_memory(const std::string& tensor) {
    return {ErrorCode::unsupported, "the tensor is to lie in a GPU's memory, which this backend does not reach", tensor,
            "send and ask for it in system memory, or in system shared memory"};
}

} // namespace

std::uint64_t now() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

Result<InputPieces> read_input(TRITONBACKEND_Request* request, const std::string& wanted,
                               TRITONSERVER_DataType wanted_type) {
    TRITONBACKEND_Input* input = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_RequestInput(request, wanted.c_str(), &input)));
    const char* name = nullptr;
    TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
    const std::int64_t* shape = nullptr;
    std::uint32_t rank = 0;
    std::uint64_t bytes = 0;
    std::uint32_t buffers = 0;
    LATHE_CHECK(taken(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &bytes, &buffers)));
    if (type != wanted_type) {
        return Error{ErrorCode::invalid_argument, "the input is of another type than config.pbtxt says", wanted, ""};
    }
    InputPieces read;
    read.shape.assign(shape, shape + rank);
    for (std::uint32_t i = 0; i < buffers; ++i) {
        const void* buffer = nullptr;
        std::uint64_t size = 0;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        std::int64_t device = 0;
        LATHE_CHECK(taken(TRITONBACKEND_InputBuffer(input, i, &buffer, &size, &memory, &device)));
        if (memory == TRITONSERVER_MEMORY_GPU) return in_gpu_memory(wanted);
        read.pieces.emplace_back(static_cast<const std::byte*>(buffer), size);
    }
    return read;
}

Result<void> check_not_cancelled(TRITONBACKEND_Request* request) {
    bool cancelled = false;
    LATHE_CHECK(taken(TRITONBACKEND_RequestIsCancelled(request, &cancelled)));
    if (cancelled) return Error{ErrorCode::cancelled, "the client cancelled the request", "", ""};
    return {};
}

Result<Response> Response::to(TRITONBACKEND_Request* request) {
    Response response;
    LATHE_CHECK(taken(TRITONBACKEND_ResponseNew(&response.response_, request)));
    return response;
}

Response::~Response() {
    if (response_ != nullptr) (void)taken(TRITONBACKEND_ResponseDelete(response_));
}

Result<std::byte*> Response::memory_for(const std::string& name, TRITONSERVER_DataType type, const Shape& shape,
                                        std::size_t bytes) {
    TRITONBACKEND_Output* output = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ResponseOutput(response_, &output, name.c_str(), type, shape.data(),
                                                   static_cast<std::uint32_t>(shape.size()))));
    void* memory = nullptr;
    TRITONSERVER_MemoryType where = TRITONSERVER_MEMORY_CPU;
    std::int64_t device = 0;
    LATHE_CHECK(taken(TRITONBACKEND_OutputBuffer(output, &memory, bytes, &where, &device)));
    if (where == TRITONSERVER_MEMORY_GPU) return in_gpu_memory(name);
    return static_cast<std::byte*>(memory);
}

Result<void> Response::send(TRITONSERVER_Error* error, bool final) {
    return taken(TRITONBACKEND_ResponseSend(std::exchange(response_, nullptr),
                                            final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0, error));
}

void refuse_request(TRITONBACKEND_Request* request, const std::string& model, const Error& error) {
    TRITONSERVER_Error* const told =
        made(Error{error.code, error.message, model + (error.where.empty() ? "" : ": ") + error.where, error.hint});
    Result<void> sent;
    if (auto response = Response::to(request); response) {
        sent = response->send(told, true);
    } else {
        sent = response.error();
    }
    TRITONSERVER_ErrorDelete(told);
    if (!sent) log_to_server(TRITONSERVER_LOG_ERROR, model + ": no answer could be sent: " + sent.error().describe());
}

} // namespace lathe::triton
