#include "backends/openvino/core.hpp"

#include <algorithm>
#include <array>

#include "onnx/onnx.hpp"

namespace lathe::openvino {

namespace {

struct TypePair {
    DataType ours;
    ov::element::Type theirs;
};

const std::array<TypePair, 15>& type_pairs() {
    static const std::array<TypePair, 15> pairs{{
        {DataType::float32, ov::element::f32},
        {DataType::float16, ov::element::f16},
        {DataType::bfloat16, ov::element::bf16},
        {DataType::float64, ov::element::f64},
        {DataType::int8, ov::element::i8},
        {DataType::uint8, ov::element::u8},
        {DataType::int16, ov::element::i16},
        {DataType::uint16, ov::element::u16},
        {DataType::int32, ov::element::i32},
        {DataType::uint32, ov::element::u32},
        {DataType::int64, ov::element::i64},
        {DataType::uint64, ov::element::u64},
        {DataType::boolean, ov::element::boolean},
        {DataType::float8e4m3fn, ov::element::f8e4m3},
        {DataType::float8e5m2, ov::element::f8e5m2},
    }};
    return pairs;
}

} // namespace

ov::Core& core() {
    static ov::Core instance;
    return instance;
}

std::string library_version() { return ov::get_openvino_version().buildNumber; }

ov::element::Type element_type(DataType type) {
    for (const auto& pair : type_pairs()) {
        if (pair.ours == type) return pair.theirs;
    }
    return ov::element::dynamic;
}

DataType data_type(const ov::element::Type& type) {
    for (const auto& pair : type_pairs()) {
        if (pair.theirs == type) return pair.ours;
    }
    return DataType::undefined;
}

std::string brief(const std::string& message) {
    std::string text;
    std::size_t start = 0;
    while (start < message.size()) {
        std::size_t end = message.find('\n', start);
        if (end == std::string::npos) end = message.size();
        const std::string line = message.substr(start, end - start);
        start = end + 1;
        const bool trace = line.find("Exception from ") != std::string::npos ||
                           (line.find("Check '") != std::string::npos && line.find("failed at") != std::string::npos) ||
                           line.find_first_not_of(" \t\r") == std::string::npos;
        if (trace) continue;
        text += (text.empty() ? "" : "; ") + line;
    }
    if (text.empty()) text = message;
    constexpr std::size_t limit = 600;
    if (text.size() > limit) text = text.substr(0, limit) + "...";
    return text;
}

Result<std::shared_ptr<ov::Model>> to_openvino(const Model& model) {
    LATHE_TRY(const std::string bytes, serialize_onnx(model));
    return guarded("OpenVINO cannot read the model", model.graph.name,
                   [&]() -> Result<std::shared_ptr<ov::Model>> { return core().read_model(bytes, ov::Tensor()); });
}

ov::AnyMap properties(Precision precision, std::size_t streams, std::size_t threads, bool profiling) {
    ov::element::Type type = ov::element::f32;
    if (precision == Precision::bfloat16) type = ov::element::bf16;
    if (precision == Precision::float16) type = ov::element::f16;
    ov::AnyMap map;
    map[ov::hint::performance_mode.name()] = ov::hint::PerformanceMode::LATENCY;
    map[ov::hint::inference_precision.name()] = type;
    map[ov::num_streams.name()] = ov::streams::Num(static_cast<int32_t>(std::max<std::size_t>(1, streams)));
    map[ov::inference_num_threads.name()] = static_cast<int32_t>(std::max<std::size_t>(1, threads));
    if (profiling) map[ov::enable_profiling.name()] = true;
    return map;
}

} // namespace lathe::openvino
