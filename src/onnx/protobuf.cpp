#include <exception>
#include <limits>
#include <new>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include "onnx/proto.hpp"

namespace lathe::proto {
namespace {

// A subgraph takes three levels (graph, node, attribute). This admits more than Importer::max_depth, which names
// the node when it refuses, and still bounds protobuf's recursion.
constexpr int nesting_limit = 400;

} // namespace

bool parse(google::protobuf::MessageLite& message, std::span<const std::byte> bytes) {
    if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return false;
    const google::protobuf::LogSilencer silence; // the library does not print
    google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetRecursionLimit(nesting_limit);
    return message.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

bool parse(google::protobuf::MessageLite& message, const std::string& bytes) {
    return parse(message, std::as_bytes(std::span(bytes)));
}

std::string serialize(const google::protobuf::MessageLite& message) {
    const google::protobuf::LogSilencer silence;
    std::string bytes;
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
    coded.Trim();
    return bytes;
}

Result<void> guarded(ErrorCode code, const std::string& what, const std::function<void()>& call) {
    try {
        call();
        return {};
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::out_of_memory, "memory ran out", what, "use a machine with more memory"};
    } catch (const std::exception& failure) {
        return Error{code, failure.what(), what, ""};
    } catch (...) {
        return Error{ErrorCode::internal, "an unknown exception was thrown", what, "please report this with the model"};
    }
}

} // namespace lathe::proto
