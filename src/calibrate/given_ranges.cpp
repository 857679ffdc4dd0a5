#include "calibrate/given_ranges.hpp"

#include <algorithm>
#include <cctype>

#include "support/files.hpp"

namespace lathe {
namespace {

constexpr std::size_t given_size_limit = std::size_t{1} << 28;

bool is_ours(std::string_view text) {
    // A file of ours may be damaged; its reader then says so.
    return text.starts_with(R"({"kind":"ranges")");
}

} // namespace

Result<std::optional<GivenRanges>> load_given_ranges(const std::filesystem::path& path) {
    LATHE_TRY(const std::string text, read_text_file(path, given_size_limit));
    const std::string where = path.string();
    if (is_ours(text)) return std::optional<GivenRanges>{};
    const auto first =
        std::ranges::find_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) == 0; });
    if (first != text.end() && *first == '{') {
        LATHE_TRY(GivenRanges ranges, parse_dynamic_ranges(text, where));
        return std::optional(std::move(ranges));
    }
    LATHE_TRY(GivenRanges ranges, parse_tensorrt_cache(text, where));
    return std::optional(std::move(ranges));
}

GivenRanges given_of(const RangesFile& ranges) {
    GivenRanges given;
    given.source = "a calibration of Lathe";
    for (const TensorRange& tensor : ranges.tensors)
        given.tensors.push_back({tensor.name, tensor.int8, 0});
    return given;
}

} // namespace lathe
