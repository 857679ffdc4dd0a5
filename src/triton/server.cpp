#include "triton/server.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lathe::triton {

namespace {

constexpr std::uint32_t config_version = 1;

constexpr std::array<std::pair<DataType, TRITONSERVER_DataType>, 13> types{{
    {DataType::boolean, TRITONSERVER_TYPE_BOOL},
    {DataType::uint8, TRITONSERVER_TYPE_UINT8},
    {DataType::uint16, TRITONSERVER_TYPE_UINT16},
    {DataType::uint32, TRITONSERVER_TYPE_UINT32},
    {DataType::uint64, TRITONSERVER_TYPE_UINT64},
    {DataType::int8, TRITONSERVER_TYPE_INT8},
    {DataType::int16, TRITONSERVER_TYPE_INT16},
    {DataType::int32, TRITONSERVER_TYPE_INT32},
    {DataType::int64, TRITONSERVER_TYPE_INT64},
    {DataType::float16, TRITONSERVER_TYPE_FP16},
    {DataType::float32, TRITONSERVER_TYPE_FP32},
    {DataType::float64, TRITONSERVER_TYPE_FP64},
    {DataType::bfloat16, TRITONSERVER_TYPE_BF16},
}};

TRITONSERVER_ErrorCodes code_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument:
        case ErrorCode::out_of_range: return TRITONSERVER_ERROR_INVALID_ARG;
        case ErrorCode::not_found: return TRITONSERVER_ERROR_NOT_FOUND;
        case ErrorCode::unsupported: return TRITONSERVER_ERROR_UNSUPPORTED;
        case ErrorCode::out_of_memory: return TRITONSERVER_ERROR_UNAVAILABLE;
        case ErrorCode::cancelled: return TRITONSERVER_ERROR_CANCELLED;
        default: return TRITONSERVER_ERROR_INTERNAL;
    }
}

/// A message of the server, freed at the end.
class Message {
public:
    ~Message() {
        if (message_ != nullptr) (void)taken(TRITONSERVER_MessageDelete(message_));
    }
    Message() = default;
    Message(const Message&) = delete;
    Message& operator=(const Message&) = delete;
    TRITONSERVER_Message** out() { return &message_; }
    TRITONSERVER_Message* get() const { return message_; }

private:
    TRITONSERVER_Message* message_ = nullptr;
};

} // namespace

Result<void> taken(TRITONSERVER_Error* error) {
    if (error == nullptr) return {};
    Error copy{ErrorCode::internal, TRITONSERVER_ErrorMessage(error), "Triton", ""};
    TRITONSERVER_ErrorDelete(error);
    return copy;
}

TRITONSERVER_Error* made(const Error& error) {
    return TRITONSERVER_ErrorNew(code_of(error.code), error.describe().c_str());
}

TRITONSERVER_Error* made(const Result<void>& result) {
    if (result) return nullptr;
    Result<void> copy = result;
    return made(copy.error());
}

void log_to_server(TRITONSERVER_LogLevel level, const std::string& message) {
    if (TRITONSERVER_LogIsEnabled(level))
        (void)taken(TRITONSERVER_LogMessage(level, "lathe", 0, message.c_str())); // nowhere else to report it
}

TRITONSERVER_DataType type_for_server(DataType type) {
    const auto* const found = std::ranges::find(types, type, &decltype(types)::value_type::first);
    return found == types.end() ? TRITONSERVER_TYPE_INVALID : found->second;
}

Result<Json> config_of(TRITONBACKEND_Model* model) {
    Message message;
    LATHE_CHECK(taken(TRITONBACKEND_ModelConfig(model, config_version, message.out())));
    const char* text = nullptr;
    std::size_t size = 0;
    LATHE_CHECK(taken(TRITONSERVER_MessageSerializeToJson(message.get(), &text, &size)));
    return parse_json(std::string_view(text, size), "config.pbtxt");
}

Result<void> set_config(TRITONBACKEND_Model* model, const Json& config) {
    const std::string text = config.dump();
    Message message;
    LATHE_CHECK(taken(TRITONSERVER_MessageNewFromSerializedJson(message.out(), text.data(), text.size())));
    return taken(TRITONBACKEND_ModelSetConfig(model, config_version, message.get()));
}

} // namespace lathe::triton
