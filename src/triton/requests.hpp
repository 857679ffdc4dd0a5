#pragma once

// What the server hands over with a request, and what it is answered with.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "runtime/device_run.hpp"
#include "triton/batch.hpp"
#include "triton/server.hpp"

namespace lathe::triton {

/// Nanoseconds of the clock that the server's statistics are in.
std::uint64_t now();

/// Which of its pieces lie in a GPU's memory the result says. Errors: invalid_argument (no such input; of another
/// type).
Result<InputPieces> read_input(TRITONBACKEND_Request* request, const std::string& wanted,
                               TRITONSERVER_DataType wanted_type);

/// As read_input, for what is read here: pieces in a GPU's memory are copied into `kept`, which is memory for them.
/// Errors: those, and of the copies, which are made where they are missing.
Result<InputPieces> read_host_input(TRITONBACKEND_Request* request, const std::string& wanted,
                                    TRITONSERVER_DataType wanted_type, int device,
                                    std::unique_ptr<DeviceCopies>& copies, std::vector<std::byte>& kept);

/// Error: cancelled, once the client has cancelled the request.
Result<void> check_not_cancelled(TRITONBACKEND_Request* request);

/// A response that is deleted unless it was sent.
class Response {
public:
    static Result<Response> to(TRITONBACKEND_Request* request);
    Response(Response&& other) noexcept : response_(std::exchange(other.response_, nullptr)) {}
    Response& operator=(Response&&) = delete;
    ~Response();

    /// Where an output's bytes are to be written.
    struct Place {
        std::byte* memory = nullptr;
        bool in_gpu = false;
    };
    /// An output, and its place.
    Result<Place> place_for(const std::string& name, TRITONSERVER_DataType type, const Shape& shape, std::size_t bytes);
    /// The same for what is written here. Errors: unsupported (in a GPU's memory).
    Result<std::byte*> memory_for(const std::string& name, TRITONSERVER_DataType type, const Shape& shape,
                                  std::size_t bytes);
    /// `final`: none follows. `error` may be null and stays the caller's.
    Result<void> send(TRITONSERVER_Error* error, bool final);

private:
    Response() = default;
    TRITONBACKEND_Response* response_ = nullptr;
};

/// Answers with an error, finally. `model` is who tells it.
void refuse_request(TRITONBACKEND_Request* request, const std::string& model, const Error& error);

} // namespace lathe::triton
