#include "backends/fallback/split_form.hpp"

#include <cstring>

#include "backends/api/compiled_form.hpp"
#include "support/json_fault.hpp"

namespace lathe {
namespace {

constexpr CompiledFormat format{"LATHESPL", 1};
/// Parts begin at multiples of this, as the GPU's forms have weights at multiples of it.
constexpr std::size_t alignment = 256;

} // namespace

bool is_split_form(std::span<const std::byte> blob) {
    return blob.size() >= format.magic.size() &&
           std::memcmp(blob.data(), format.magic.data(), format.magic.size()) == 0;
}

ByteChain write_split_form(const std::vector<IoInfo>& inputs, const std::vector<IoInfo>& outputs,
                           std::vector<std::pair<SplitFormPart, ByteChain>> parts) {
    Json header{{"parts", Json::array()}};
    add_bindings(header, {inputs, outputs, {}});
    ByteChain body;
    for (auto& [part, form] : parts) {
        header["parts"].push_back({{"gpu", part.gpu}, {"bytes", form.size()}, {"reasons", part.reasons}});
        body.add(std::string((alignment - body.size() % alignment) % alignment, '\0'));
        body.add(std::move(form));
    }
    return write_compiled(format, header, std::move(body));
}

Result<SplitForm> read_split_form(std::span<const std::byte> blob) {
    LATHE_TRY(const CompiledForm form, read_compiled(format, blob));
    LATHE_TRY(const Json header, parse_json(form.header, "compiled form"));
    LATHE_TRY(CompiledBindings bindings, read_bindings(header));
    SplitForm read;
    read.inputs = std::move(bindings.inputs);
    read.outputs = std::move(bindings.outputs);
    try {
        std::size_t at = 0;
        for (const Json& each : header.at("parts")) {
            const std::size_t size = count_of(each.at("bytes"));
            if (at > form.body.size() || size > form.body.size() - at)
                return damaged_form("a part lies beyond its end");
            read.parts.push_back({each.at("gpu").get<bool>(), form.body.subspan(at, size),
                                  each.at("reasons").get<std::vector<std::string>>()});
            at += (size + alignment - 1) / alignment * alignment;
        }
    } catch (const Json::exception& error) {
        return damaged_form(json_fault(error));
    }
    if (read.parts.empty()) return damaged_form("it has no part");
    return read;
}

} // namespace lathe
