#include <cstring>

#include "backends/cuda/plan/lower.hpp"
#include "backends/cuda/plan/memory.hpp"
#include "backends/cuda/plan/specialise.hpp"
#include "onnx/onnx.hpp"
#include "support/json.hpp"

namespace lathe::cuda {
namespace {

// "LATHPREP", u32 version, u32 0, u64 size of the JSON, u64 size of the ONNX model; JSON; model; weights, each on a
// multiple of 256 from the beginning. Little-endian.
constexpr char magic[] = {'L', 'A', 'T', 'H', 'P', 'R', 'E', 'P'};
constexpr std::uint32_t version = 1;
constexpr std::size_t header_size = 32;
constexpr std::size_t alignment = 256;

template <class T>
void put(std::string& out, T number) {
    char bytes[sizeof number];
    std::memcpy(bytes, &number, sizeof number);
    out.append(bytes, sizeof number);
}
template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
    T number;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

Error corrupt(std::string what) {
    return {ErrorCode::corrupt, "the prepared model is damaged: " + std::move(what), "", "build the engine again"};
}

std::optional<ElementType> type_named(const std::string& name) {
    for (int i = 0; i <= static_cast<int>(ElementType::f64); ++i) {
        const auto type = static_cast<ElementType>(i);
        if (name == to_string(type)) return type;
    }
    return std::nullopt;
}

Result<Weight> weight_of(const Json& entry, std::span<const std::byte> bytes, std::size_t base,
                         const std::shared_ptr<const void>& owner) {
    const auto field = [&](const char* key) { return entry.is_object() && entry.contains(key); };
    if (!field("key") || !field("type") || !field("dims") || !field("offset") || !entry["key"].is_string() ||
        !entry["type"].is_string() || !entry["dims"].is_array() || !entry["offset"].is_number_unsigned()) {
        return corrupt("an entry of its weights");
    }
    Weight weight;
    weight.key = entry["key"].get<std::string>();
    const auto type = type_named(entry["type"].get<std::string>());
    if (!type) return corrupt("the type of " + weight.key);
    weight.type = *type;
    for (const Json& size : entry["dims"]) {
        if (!size.is_number_integer() || size.get<std::int64_t>() < 0) return corrupt("the sizes of " + weight.key);
        weight.dims.push_back(size.get<std::int64_t>());
    }
    const std::int64_t count = element_count(weight.dims);
    const auto offset = entry["offset"].get<std::size_t>();
    if (count < 0 || offset > bytes.size() - base ||
        static_cast<std::size_t>(count) > (bytes.size() - base - offset) / bytes_of(weight.type)) {
        return corrupt("the place of " + weight.key);
    }
    weight.bytes = bytes.subspan(base + offset, static_cast<std::size_t>(count) * bytes_of(weight.type));
    weight.owner = owner;
    return weight;
}

} // namespace

Result<ByteChain> serialize(const Prepared& prepared) {
    LATHE_TRY(const std::string model, serialize_onnx(prepared.model));
    Json json;
    json["precision"] = lathe::to_string(prepared.precision);
    json["weights"] = Json::array();
    std::size_t at = 0; // from the first weight
    for (const Weight& weight : prepared.weights->weights) {
        json["weights"].push_back(
            {{"key", weight.key}, {"type", to_string(weight.type)}, {"dims", weight.dims}, {"offset", at}});
        at = aligned(at + weight.bytes.size());
    }
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string out(magic, sizeof magic);
    put(out, version);
    put(out, std::uint32_t{0});
    put(out, static_cast<std::uint64_t>(text.size()));
    put(out, static_cast<std::uint64_t>(model.size()));
    const std::size_t base = aligned(header_size + text.size() + model.size());
    out += text;
    out += model;
    out.resize(base, '\0');
    ByteChain chain(std::move(out));
    for (const Weight& weight : prepared.weights->weights) {
        chain.add(weight.bytes, weight.owner);
        chain.add(std::string(aligned(weight.bytes.size()) - weight.bytes.size(), '\0'));
    }
    return chain;
}

Result<Prepared> deserialize(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    if (bytes.size() < header_size || std::memcmp(bytes.data(), magic, sizeof magic) != 0) {
        return corrupt("it does not begin as it should");
    }
    if (get<std::uint32_t>(bytes, 8) != version) {
        return Error{ErrorCode::mismatch, "the prepared model is of another version", "", "build the engine again"};
    }
    const auto json_size = get<std::uint64_t>(bytes, 16);
    const auto model_size = get<std::uint64_t>(bytes, 24);
    const std::size_t rest = bytes.size() - header_size;
    if (json_size > rest || model_size > rest - json_size) return corrupt("it is cut short");
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + header_size, json_size);
    auto json = parse_json(text, "prepared model");
    if (!json) return corrupt("its table");
    const auto precision = json->is_object() && json->contains("precision") && (*json)["precision"].is_string()
                               ? precision_from_name((*json)["precision"].get<std::string>())
                               : std::nullopt;
    if (!precision || !json->contains("weights") || !(*json)["weights"].is_array()) return corrupt("its table");
    Prepared prepared;
    prepared.precision = *precision;
    LATHE_TRY(prepared.model, parse_onnx(bytes.subspan(header_size + json_size, model_size)));
    LATHE_CHECK(input_count(prepared.model));
    prepared.weights = std::make_shared<WeightStore>();
    const std::size_t base = aligned(header_size + json_size + model_size);
    if (base > bytes.size() && !(*json)["weights"].empty()) return corrupt("it is cut short");
    for (const Json& entry : (*json)["weights"]) {
        LATHE_TRY(Weight weight, weight_of(entry, bytes, base, owner));
        const auto id = static_cast<WeightId>(prepared.weights->weights.size());
        if (!prepared.weights->by_key.emplace(weight.key, id).second) return corrupt("a key twice");
        prepared.weights->weights.push_back(std::move(weight));
    }
    return prepared;
}

} // namespace lathe::cuda
