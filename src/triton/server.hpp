#pragma once

// Between the server's C interface and Lathe's results: errors, messages, types.

#include <string>

#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/json.hpp"
#include "triton/triton_backend_api.hpp"

namespace lathe::triton {

/// Takes the server's error, null on success. Errors: internal, with its text.
Result<void> taken(TRITONSERVER_Error* error);
/// For the server, which owns it.
TRITONSERVER_Error* made(const Error& error);
/// Null on success.
TRITONSERVER_Error* made(const Result<void>& result);

/// What the server logs beside its own messages.
void log_to_server(TRITONSERVER_LogLevel level, const std::string& message);

/// TRITONSERVER_TYPE_INVALID for what the server lacks.
TRITONSERVER_DataType type_for_server(DataType type);

/// The model's config as the server knows it now.
Result<Json> config_of(TRITONBACKEND_Model* model);
Result<void> set_config(TRITONBACKEND_Model* model, const Json& config);

} // namespace lathe::triton
