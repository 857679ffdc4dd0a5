#include "backends/api/tensorrt.hpp"

#include <cstring>

#include "support/json.hpp"

namespace lathe {

namespace {

constexpr const char* metadata_key = "lathe.tensorrt";
constexpr std::string_view magic = "LATHETRT";
constexpr std::size_t fixed_bytes = 24, alignment = 256;
constexpr std::uint32_t version = 1;

std::size_t aligned(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

Error corrupt(const std::string& why) {
    return {ErrorCode::corrupt, "the compiled form is damaged: " + why, "", "build the engine again"};
}

} // namespace

void set_tensorrt_options(Model& model, const TensorRtOptions& options) {
    const Json json{{"optimization_level", options.optimization_level ? Json(*options.optimization_level) : Json()},
                    {"version_compatible", options.version_compatible},
                    {"hardware_compatible", options.hardware_compatible},
                    {"strip_weights", options.strip_weights},
                    {"refittable", options.refittable},
                    {"compute_capabilities", options.compute_capabilities}};
    model.set_metadata(metadata_key, json.dump());
}

Result<TensorRtOptions> tensorrt_options_of(const Model& model) {
    TensorRtOptions options;
    const std::string* text = model.find_metadata(metadata_key);
    if (text == nullptr) return options;
    LATHE_TRY(const Json json, parse_json(*text, "metadata lathe.tensorrt"));
    try {
        if (const Json& level = json.at("optimization_level"); !level.is_null())
            options.optimization_level = level.get<int>();
        options.version_compatible = json.at("version_compatible").get<bool>();
        options.hardware_compatible = json.at("hardware_compatible").get<bool>();
        options.strip_weights = json.at("strip_weights").get<bool>();
        options.refittable = json.at("refittable").get<bool>();
        options.compute_capabilities = json.at("compute_capabilities").get<std::vector<int>>();
    } catch (const Json::exception& error) {
        return Error{ErrorCode::parse_error, std::string("the TensorRT options are not as expected: ") + error.what(),
                     "metadata lathe.tensorrt", "build from the model without them"};
    }
    return options;
}

std::string write_tensorrt_blob(const std::string& header, std::span<const std::byte> plan) {
    std::string blob(magic);
    const auto append = [&](auto number) { blob.append(reinterpret_cast<const char*>(&number), sizeof number); };
    append(version);
    append(std::uint32_t{0});
    append(static_cast<std::uint64_t>(header.size()));
    blob += header;
    blob.resize(aligned(blob.size()), '\0');
    blob.append(reinterpret_cast<const char*>(plan.data()), plan.size());
    return blob;
}

Result<TensorRtBlob> read_tensorrt_blob(std::span<const std::byte> blob) {
    if (blob.size() < fixed_bytes || std::memcmp(blob.data(), magic.data(), magic.size()) != 0)
        return corrupt("it does not begin as one");
    std::uint32_t found = 0;
    std::uint64_t length = 0;
    std::memcpy(&found, blob.data() + 8, sizeof found);
    std::memcpy(&length, blob.data() + 16, sizeof length);
    if (found != version) {
        return Error{ErrorCode::mismatch,
                     "the compiled form has version " + std::to_string(found) + ", this program reads " +
                         std::to_string(version),
                     "", "build the engine again"};
    }
    if (length > blob.size() - fixed_bytes) return corrupt("its header ends past its end");
    const std::size_t at = aligned(fixed_bytes + length);
    if (at >= blob.size()) return corrupt("it is cut off");
    return TensorRtBlob{{reinterpret_cast<const char*>(blob.data()) + fixed_bytes, length}, blob.subspan(at)};
}

} // namespace lathe
