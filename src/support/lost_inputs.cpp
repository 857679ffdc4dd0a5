#include "support/lost_inputs.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "support/files.hpp"

namespace lathe {

namespace {

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
    std::error_code failed;
    return fs::equivalent(a, b, failed) && !failed;
}

bool is_picture(const fs::path& file) {
    std::string extension = file.extension().string();
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

/// Whether the file lies in the folder or below it.
bool lies_in(const fs::path& file, const fs::path& folder) {
    std::error_code failed;
    for (fs::path parent = fs::canonical(file, failed).parent_path(); !failed;) {
        if (same_file(parent, folder)) return true;
        if (parent == parent.root_path()) return false;
        parent = parent.parent_path();
    }
    return false;
}

/// Whether an ONNX file keeps tensors in the other file. Looked for is how protobuf writes the entry "location" of a
/// tensor's external data: the key's tag, length and text, the value's tag, then its length (of two bytes at most: a
/// path) and text. The model itself need not be read for that.
bool has_data_in(const fs::path& model, const fs::path& other) {
    if (model.extension() != ".onnx") return false;
    const auto mapped = MappedFile::open(model);
    if (!mapped) return false; // told when it is read
    const auto bytes = (*mapped)->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    constexpr std::string_view entry = "\x0a\x08location\x12";
    for (auto at = text.find(entry); at != std::string_view::npos; at = text.find(entry, at + 1)) {
        std::string_view value = text.substr(at + entry.size());
        std::size_t size = 0;
        for (unsigned shift = 0; shift <= 7 && !value.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(value[0]);
            size |= static_cast<std::size_t>(byte & 0x7FU) << shift;
            value.remove_prefix(1);
            if (byte < 0x80) break;
        }
        if (same_file(model.parent_path() / fs::path(value.substr(0, size)), other)) return true;
    }
    return false;
}

/// Why writing `output`, which is there, would destroy `input`; nothing if it would not.
std::optional<std::string> loss(const fs::path& output, const std::string& input) {
    std::error_code failed;
    if (fs::is_directory(input, failed)) {
        const fs::path target = fs::canonical(output, failed); // a link stays, and what it leads to is written
        if (is_picture(target) && lies_in(target, input)) return "the output is a picture of an input folder";
        return std::nullopt;
    }
    if (same_file(output, input)) return "the output is an input of the command, which would be lost";
    if (has_data_in(input, output)) return "the output is the file of an input's weights, which would be lost";
    const fs::path file = input;
    if (file.extension() == ".xml" && same_file(output, fs::path(file).replace_extension(".bin")))
        return "the output is the file of an input's weights, which would be lost";
    return std::nullopt;
}

} // namespace

Result<void> refuse_lost_inputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
    for (const std::string& output : outputs) {
        std::error_code failed;
        // Folders are added to, and what is no file (a pipe, /dev/null) is not replaced.
        if (output.empty() || !fs::is_regular_file(output, failed)) continue;
        for (const std::string& input : inputs) {
            if (auto why = loss(output, input))
                return Error{ErrorCode::invalid_argument, *std::move(why), output, "give another file to write"};
        }
    }
    return {};
}

} // namespace lathe
