#include "report/fields.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace lathe::report {

namespace {

std::string upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

/// "" for an engine, whose precision names it.
std::string product_name(std::string_view kind) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> products{{
        {"pytorch", "PyTorch eager"},
        {"torch-compile", "torch.compile"},
        {"onnxruntime", "ONNX Runtime"},
        {"openvino", "OpenVINO"},
        {"trtexec", "trtexec"},
    }};
    const auto* found = std::find_if(products.begin(), products.end(), [&](const auto& p) { return p.first == kind; });
    return found == products.end() ? std::string() : std::string(found->second);
}

/// INT8-BF16 or INT8-effort2 of an engine that is called model.int8-bf16 or model.int8-effort2; "" of others.
std::string variant_label(const std::string& name) {
    static constexpr std::array<std::string_view, 5> precisions{"fp32", "tf32", "bf16", "fp16", "int8"};
    const auto known = [](std::string_view word) { return std::ranges::count(precisions, word) > 0; };
    const std::string ending = name.substr(name.rfind('.') + 1); // all of a name without a dot
    const std::size_t dash = ending.find('-');
    if (dash == std::string::npos || !known(std::string_view(ending).substr(0, dash))) return "";
    const std::string variant = ending.substr(dash + 1);
    return upper(ending.substr(0, dash)) + "-" + (known(variant) ? upper(variant) : variant);
}

std::string short_label(const Json& subject, bool with_precision) {
    const std::string product = product_name(text(subject, "kind"));
    std::string precision = upper(text(subject, "precision"));
    if (product.empty()) {
        std::string variant = variant_label(text(subject, "name"));
        return variant.empty() ? precision : variant;
    }
    // A framework's usual precision goes without saying.
    const bool say = with_precision ? !precision.empty() : !precision.empty() && precision != "FP32";
    return say ? product + " " + precision : product;
}

bool unique_label(const Json& subjects, const std::string& label, bool with_precision) {
    return std::count_if(subjects.begin(), subjects.end(),
                         [&](const Json& s) { return short_label(s, with_precision) == label; }) == 1;
}

} // namespace

const Json* member(const Json& object, std::string_view key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(std::string(key));
    return found == object.end() ? nullptr : &*found;
}

std::optional<double> number(const Json& object, std::string_view key) {
    const Json* value = member(object, key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const double as_double = value->get<double>();
    if (!std::isfinite(as_double)) return std::nullopt;
    return as_double;
}

std::string text(const Json& object, std::string_view key) {
    const Json* value = member(object, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool flag(const Json& object, std::string_view key) {
    const Json* value = member(object, key);
    return value != nullptr && value->is_boolean() && value->get<bool>();
}

std::optional<std::pair<double, double>> interval(const Json& object, std::string_view key) {
    const Json& pair = items(object, key);
    if (pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) return std::nullopt;
    const auto low = pair[0].get<double>();
    const auto high = pair[1].get<double>();
    if (!std::isfinite(low) || !std::isfinite(high) || low > high) return std::nullopt;
    return std::pair{low, high};
}

const Json& items(const Json& object, std::string_view key) {
    static const Json empty = Json::array();
    const Json* value = member(object, key);
    return value != nullptr && value->is_array() ? *value : empty;
}

const Json* find_item(const Json& array, std::string_view key, std::string_view value) {
    if (!array.is_array()) return nullptr;
    const auto found =
        std::find_if(array.begin(), array.end(), [&](const Json& item) { return text(item, key) == value; });
    return found == array.end() ? nullptr : &*found;
}

std::string subject_label(const Json& subjects, std::string_view name) {
    const Json* subject = find_item(subjects, "name", name);
    if (subject == nullptr) return std::string(name);
    for (const bool with_precision : {false, true}) {
        std::string label = short_label(*subject, with_precision);
        if (!label.empty() && unique_label(subjects, label, with_precision)) return label;
    }
    return std::string(name);
}

} // namespace lathe::report
