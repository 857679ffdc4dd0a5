#include <charconv>
#include <system_error>

#include "onnx/proto.hpp"

namespace lathe::proto {
namespace {

Result<std::size_t> number(const std::string& text, const char* key) {
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return Error{ErrorCode::parse_error, std::string("external data has the ") + key + " \"" + text + "\"", "",
                     "it must be a number of bytes"};
    }
    return value;
}

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& folder) {
    const auto relative = path.lexically_relative(folder);
    return !relative.empty() && *relative.begin() != "..";
}

} // namespace

Result<std::shared_ptr<const MappedFile>> ExternalFiles::open(const std::string& location) {
    if (const auto known = files_.find(location); known != files_.end()) return known->second;
    const std::filesystem::path relative(location);
    const Error outside{ErrorCode::parse_error, "external data lies outside the model's folder", location,
                        "move the data file beside the model; a model may not read other files"};
    if (location.empty() || relative.is_absolute() || location.find('\0') != std::string::npos) return outside;
    for (const auto& part : relative) {
        if (part == "..") return outside;
    }
    std::error_code failure;
    const auto folder = std::filesystem::weakly_canonical(folder_, failure);
    const auto path = std::filesystem::weakly_canonical(folder / relative, failure);
    if (failure || !is_inside(path, folder)) return outside; // a symbolic link that leads away
    if (!std::filesystem::is_regular_file(path, failure)) {
        return Error{ErrorCode::not_found, "the external data file does not exist", (folder_ / relative).string(),
                     "copy it beside the model"};
    }
    LATHE_TRY(auto file, MappedFile::open(path));
    files_.emplace(location, file);
    return file;
}

Result<std::optional<Tensor>> ExternalFiles::find(const onnx::TensorProto& proto) {
    if (proto.data_location() != onnx::TensorProto::EXTERNAL) return std::optional<Tensor>();
    LATHE_TRY(const TensorHeader header, import_tensor_header(proto));
    if (header.type == DataType::string) {
        return Error{ErrorCode::parse_error, "a string tensor cannot be external", "", "store it in the model"};
    }
    std::string location;
    std::size_t offset = 0;
    std::optional<std::size_t> length;
    for (const auto& entry : proto.external_data()) {
        if (entry.key() == "location") location = entry.value();
        if (entry.key() == "offset") {
            LATHE_TRY(offset, number(entry.value(), "offset"));
        }
        if (entry.key() == "length") {
            LATHE_TRY(length, number(entry.value(), "length"));
        }
    }
    if (length && *length != header.bytes) {
        return Error{ErrorCode::parse_error,
                     "external data has " + std::to_string(*length) + " bytes, the tensor's type and shape need " +
                         std::to_string(header.bytes),
                     location, "export the model again"};
    }
    LATHE_TRY(const auto file, open(location));
    const auto bytes = file->bytes();
    if (offset > bytes.size() || header.bytes > bytes.size() - offset) {
        return Error{ErrorCode::corrupt,
                     "the external data file is too short: bytes " + std::to_string(offset) + " to " +
                         std::to_string(offset + header.bytes) + " are needed, it has " + std::to_string(bytes.size()),
                     (folder_ / location).string(), "it was truncated or belongs to another model; copy it again"};
    }
    return std::optional<Tensor>(
        Tensor(proto.name(), header.type, header.shape, bytes.subspan(offset, header.bytes), file));
}

} // namespace lathe::proto
