#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <unordered_map>

#include "calibrate/given_ranges.hpp"

namespace lathe {
namespace {

constexpr float levels = 127.0F;
constexpr std::size_t digits_of_a_float = 8;
constexpr std::string_view form = "a line is \"tensor name: 3c010a14\", the eight digits being the bits of a scale";

bool alphanumeric(std::string_view text) {
    return !text.empty() &&
           std::ranges::all_of(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; });
}

Error wrong(std::string message, std::string_view where, std::size_t line, std::string hint) {
    return {ErrorCode::parse_error, std::move(message), std::string(where) + ", line " + std::to_string(line),
            std::move(hint)};
}

/// The range whose 127th part is the scale, to the bit where there is one.
float magnitude_of(float scale) {
    const float product = scale * levels;
    for (const float near :
         {product, std::nextafter(product, 0.0F), std::nextafter(product, std::numeric_limits<float>::infinity())}) {
        if (near / levels == scale) return near;
    }
    return product;
}

/// As much of a line as an error shows.
std::string shown(std::string_view line) {
    constexpr std::size_t most = 60;
    std::string text(line.substr(0, most));
    for (char& c : text) {
        if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
    }
    return "\"" + text + (line.size() > most ? "...\"" : "\"");
}

Result<void> check_header(std::string_view line, std::string_view where) {
    const std::size_t second = line.find('-', 4);
    if (line.starts_with("TRT-") && second != std::string_view::npos && alphanumeric(line.substr(4, second - 4)) &&
        alphanumeric(line.substr(second + 1))) {
        return {};
    }
    return wrong("this is no TensorRT calibration cache: it begins with " + shown(line), where, 1,
                 "the first line must be TRT-VERSION-ALGORITHM, for example TRT-8601-EntropyCalibration2; other ranges "
                 "may be a ranges file of lathe calibrate or a JSON of dynamic ranges");
}

Result<GivenRange> parse_line(std::string_view line, std::size_t number, std::string_view where) {
    // The last colon: names hold colons, bits do not.
    const std::size_t colon = line.rfind(':');
    if (colon == std::string_view::npos) {
        return wrong("there is no colon in " + shown(line), where, number, std::string(form));
    }
    if (colon == 0) return wrong("the tensor's name is missing in " + shown(line), where, number, std::string(form));
    const std::string name(line.substr(0, colon));
    std::string_view digits = line.substr(colon + 1);
    while (!digits.empty() && (digits.front() == ' ' || digits.front() == '\t'))
        digits.remove_prefix(1);
    while (!digits.empty() && (digits.back() == ' ' || digits.back() == '\t'))
        digits.remove_suffix(1);
    std::uint32_t bits = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    if (digits.empty() || failure != std::errc{} || end != digits.data() + digits.size()) {
        return wrong("\"" + std::string(digits.substr(0, 20)) + "\" is no hexadecimal scale of 32 bits (tensor " +
                         name + ")",
                     where, number, std::string(form));
    }
    // Fewer digits would be a scale under 1e-33: no calibrator writes that, but files are cut off.
    if (digits.size() != digits_of_a_float && bits != 0) {
        return wrong("the scale of " + name + " has " + std::to_string(digits.size()) + " digits instead of 8", where,
                     number, "the line is cut off or damaged; calibrate again, or take the file from a backup");
    }
    const auto scale = std::bit_cast<float>(bits);
    if (!std::isfinite(scale) || scale < 0.0F || !std::isfinite(scale * levels)) {
        char text[40];
        std::snprintf(text, sizeof(text), "%g", static_cast<double>(scale));
        return wrong("the scale of " + name + " is " + text, where, number,
                     "a scale is the largest magnitude over 127, so finite and not negative: the calibration went "
                     "wrong there, or the bits are not in big-endian order");
    }
    const float magnitude = magnitude_of(scale);
    return GivenRange{name, {-magnitude, magnitude}, number};
}

} // namespace

Result<std::string> cache_version(std::string_view version) {
    const Error malformed{ErrorCode::invalid_argument, "'" + std::string(version) + "' is no version of TensorRT", "",
                          "give it as 8.6.1 or 10.3.0, or as the header of a cache has it: 8601, 100300"};
    std::array<int, 4> parts{};
    std::size_t count = 0;
    const char* at = version.data();
    const char* const last = version.data() + version.size();
    while (count < parts.size()) {
        const auto [end, failure] = std::from_chars(at, last, parts.at(count));
        if (failure != std::errc{} || parts.at(count) < 0) return malformed;
        ++count;
        at = end;
        if (at == last) break;
        if (*at != '.') return malformed;
        ++at;
    }
    if (at != last) return malformed;
    int number = parts[0];
    if (count > 1) {
        if (parts[0] > 99 || parts[1] > 99 || parts[2] > 99) return malformed;
        // NvInferVersion.h: two digits for minor and patch from 10 on, one and two before.
        number =
            parts[0] >= 10 ? parts[0] * 10000 + parts[1] * 100 + parts[2] : parts[0] * 1000 + parts[1] * 100 + parts[2];
    }
    if (number < 1000) return malformed;
    const bool from_eleven = number >= 110000 || (count > 1 && parts[0] >= 11);
    if (from_eleven) {
        return Error{ErrorCode::invalid_argument, "TensorRT 11 and later have no calibration cache", "",
                     "give it a graph with explicit Q/DQ: lathe quantize MODEL --ranges FILE --target tensorrt"};
    }
    return std::to_string(number);
}

Result<GivenRanges> parse_tensorrt_cache(std::string_view text, std::string_view where) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    GivenRanges ranges;
    std::unordered_map<std::string, std::size_t> lines;
    std::size_t number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++number;
        if (number == 1) {
            LATHE_CHECK(check_header(line, where));
            ranges.cache_header = line;
            continue;
        }
        if (std::ranges::all_of(line, [](char c) { return c == ' ' || c == '\t'; })) continue;
        if (line.find('\0') != std::string_view::npos) {
            return wrong("there are bytes that are no text", where, number, "the file is damaged");
        }
        LATHE_TRY(GivenRange range, parse_line(line, number, where));
        const auto [known, added] = lines.try_emplace(range.name, number);
        if (!added) {
            return wrong("the tensor " + range.name + " was named in line " + std::to_string(known->second) +
                             " already",
                         where, number, "one scale a tensor: were two caches joined?");
        }
        ranges.tensors.push_back(std::move(range));
    }
    if (number == 0) LATHE_CHECK(check_header("", where));
    if (ranges.tensors.empty()) {
        return wrong("the calibration cache names no tensor", where, 1, "calibrate again: this one was not finished");
    }
    ranges.source = "the calibration cache " + ranges.cache_header;
    return ranges;
}

Result<std::string> print_tensorrt_cache(const GivenRanges& ranges, const CacheHeader& header) {
    if (!alphanumeric(header.version) || !alphanumeric(header.algorithm)) {
        return Error{ErrorCode::invalid_argument, "no header can hold this version or algorithm",
                     header.version + ", " + header.algorithm,
                     "letters and digits, as in TRT-8601-EntropyCalibration2"};
    }
    std::string text = "TRT-" + header.version + "-" + header.algorithm + "\n";
    for (const GivenRange& tensor : ranges.tensors) {
        if (tensor.name.empty() || tensor.name.find_first_of("\r\n") != std::string::npos) {
            return Error{ErrorCode::invalid_argument, "a calibration cache cannot hold a tensor's name", tensor.name,
                         "names must be of one line: rename the tensor in the model"};
        }
        const float magnitude = std::max(-tensor.range.low, tensor.range.high);
        const float scale = magnitude == 0.0F ? 1.0F : magnitude / levels;
        char bits[12];
        std::snprintf(bits, sizeof(bits), "%08x", std::bit_cast<std::uint32_t>(scale));
        text += tensor.name + ": " + bits + "\n";
    }
    return text;
}

} // namespace lathe
