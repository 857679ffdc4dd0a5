#include "triton/requests.hpp"

#include <chrono>

namespace lathe::triton {

namespace {

Error in_gpu_memory(const std::string& tensor) {
    return {ErrorCode::unsupported, "the tensor is to lie in a GPU's memory, and texts are continued on the host",
            tensor, "ask for it in system memory, or in system shared memory"};
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
        read.pieces.emplace_back(static_cast<const std::byte*>(buffer), size);
        if (memory == TRITONSERVER_MEMORY_GPU) {
            read.in_gpu.resize(read.pieces.size(), false);
            read.in_gpu.back() = true;
        }
    }
    if (read.any_in_gpu()) read.in_gpu.resize(read.pieces.size(), false);
    return read;
}

Result<InputPieces> read_host_input(TRITONBACKEND_Request* request, const std::string& wanted,
                                    TRITONSERVER_DataType wanted_type, int device,
                                    std::unique_ptr<DeviceCopies>& copies, std::vector<std::byte>& kept) {
    LATHE_TRY(InputPieces read, read_input(request, wanted, wanted_type));
    if (!read.any_in_gpu()) return read;
    if (copies == nullptr) {
        LATHE_TRY(copies, make_device_copies(device));
    }
    kept.resize(read.bytes());
    std::byte* to = kept.data();
    for (const auto& piece : read.pieces) {
        LATHE_CHECK(copies->copy(to, piece.data(), piece.size()));
        to += piece.size();
    }
    LATHE_CHECK(copies->wait());
    return InputPieces{std::move(read.shape), {std::span<const std::byte>(kept)}, {}};
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

Result<Response::Place> Response::place_for(const std::string& name, TRITONSERVER_DataType type, const Shape& shape,
                                            std::size_t bytes) {
    TRITONBACKEND_Output* output = nullptr;
    LATHE_CHECK(taken(TRITONBACKEND_ResponseOutput(response_, &output, name.c_str(), type, shape.data(),
                                                   static_cast<std::uint32_t>(shape.size()))));
    void* memory = nullptr;
    TRITONSERVER_MemoryType where = TRITONSERVER_MEMORY_CPU;
    std::int64_t device = 0;
    LATHE_CHECK(taken(TRITONBACKEND_OutputBuffer(output, &memory, bytes, &where, &device)));
    return Place{static_cast<std::byte*>(memory), where == TRITONSERVER_MEMORY_GPU};
}

Result<std::byte*> Response::memory_for(const std::string& name, TRITONSERVER_DataType type, const Shape& shape,
                                        std::size_t bytes) {
    LATHE_TRY(const Place place, place_for(name, type, shape, bytes));
    if (place.in_gpu) return in_gpu_memory(name);
    return place.memory;
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
