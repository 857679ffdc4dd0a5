#include "backends/api/compiled_form.hpp"
#include "support/json_fault.hpp"

#include <cstring>

namespace lathe {

namespace {

constexpr std::size_t fixed_bytes = 24, alignment = 256;

std::size_t aligned(std::size_t offset) { return (offset + alignment - 1) / alignment * alignment; }

Json range_json(const ShapeRange& range) { return {range.min, range.opt, range.max}; }

ShapeRange range_from(const Json& json) {
    return {json.at(0).get<Shape>(), json.at(1).get<Shape>(), json.at(2).get<Shape>()};
}

Json io_json(const std::vector<IoInfo>& list) {
    Json array = Json::array();
    for (const IoInfo& io : list)
        array.push_back({{"name", io.name}, {"type", to_string(io.type)}, {"range", range_json(io.range)}});
    return array;
}

/// Engines for CUDA had the type's number in place of its name at first.
DataType type_from(const Json& json) {
    if (json.is_number_integer()) return data_type_from_name(to_string(static_cast<DataType>(json.get<int>())));
    return data_type_from_name(json.get<std::string>());
}

std::vector<IoInfo> io_from(const Json& array) {
    std::vector<IoInfo> list;
    for (const Json& entry : array)
        list.push_back(
            {entry.at("name").get<std::string>(), type_from(entry.at("type")), range_from(entry.at("range"))});
    return list;
}

} // namespace

Error damaged_form(const std::string& why) {
    return {ErrorCode::corrupt, "the compiled form is damaged: " + why, "", "build the engine again"};
}

ByteChain write_compiled(const CompiledFormat& format, const Json& header, ByteChain body) {
    const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string blob(format.magic);
    const auto append = [&](auto number) { blob.append(reinterpret_cast<const char*>(&number), sizeof number); };
    append(format.version);
    append(std::uint32_t{0});
    append(static_cast<std::uint64_t>(text.size()));
    blob += text;
    blob.resize(aligned(blob.size()), '\0');
    ByteChain form(std::move(blob));
    form.add(std::move(body));
    return form;
}

Result<CompiledForm> read_compiled(const CompiledFormat& format, std::span<const std::byte> blob) {
    if (blob.size() < fixed_bytes || std::memcmp(blob.data(), format.magic.data(), format.magic.size()) != 0)
        return damaged_form("it does not begin as one");
    std::uint32_t found = 0;
    std::uint64_t length = 0;
    std::memcpy(&found, blob.data() + 8, sizeof found);
    std::memcpy(&length, blob.data() + 16, sizeof length);
    if (found != format.version) {
        return Error{ErrorCode::mismatch,
                     "the compiled form has version " + std::to_string(found) + ", this program reads " +
                         std::to_string(format.version),
                     "", "build the engine again"};
    }
    if (length > blob.size() - fixed_bytes) return damaged_form("its header ends past its end");
    const std::size_t at = aligned(fixed_bytes + length);
    if (at >= blob.size()) return damaged_form("it is cut off");
    return CompiledForm{{reinterpret_cast<const char*>(blob.data()) + fixed_bytes, length}, blob.subspan(at)};
}

void add_bindings(Json& header, const CompiledBindings& bindings) {
    header["inputs"] = io_json(bindings.inputs);
    header["outputs"] = io_json(bindings.outputs);
    Json& profiles = header["profiles"] = Json::array();
    for (const auto& profile : bindings.profiles) {
        Json& ranges = profiles.emplace_back(Json::array());
        for (const ShapeRange& range : profile)
            ranges.push_back(range_json(range));
    }
}

Result<CompiledBindings> read_bindings(const Json& header) {
    if (holds_huge_number(header)) return damaged_form("it holds a number out of range");
    CompiledBindings bindings;
    try {
        bindings.inputs = io_from(header.at("inputs"));
        bindings.outputs = io_from(header.at("outputs"));
        for (const Json& profile : header.at("profiles")) {
            auto& ranges = bindings.profiles.emplace_back();
            for (const Json& range : profile)
                ranges.push_back(range_from(range));
            if (ranges.size() != bindings.inputs.size())
                return damaged_form("a profile does not have a range an input");
        }
    } catch (const Json::exception& error) {
        return damaged_form(json_fault(error));
    }
    for (const auto* list : {&bindings.inputs, &bindings.outputs}) {
        for (const IoInfo& io : *list) {
            if (io.type == DataType::undefined) return damaged_form("the type of " + io.name + " is none");
        }
    }
    return bindings;
}

} // namespace lathe
