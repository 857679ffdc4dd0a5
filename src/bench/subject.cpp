#include "bench/subject.hpp"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace lathe {

namespace {

constexpr std::array<std::pair<SubjectKind, const char*>, 6> names{{
    {SubjectKind::engine, "engine"},
    {SubjectKind::pytorch, "pytorch"},
    {SubjectKind::torch_compile, "torch-compile"},
    {SubjectKind::onnxruntime, "onnxruntime"},
    {SubjectKind::openvino, "openvino"},
    {SubjectKind::trtexec, "trtexec"},
}};

} // namespace

const char* to_string(SubjectKind kind) {
    for (const auto& [value, name] : names) {
        if (value == kind) return name;
    }
    return "unknown";
}

const char* to_string(InputPlace place) { return place == InputPlace::host ? "host" : "device"; }

void pause(double milliseconds) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

std::optional<SubjectKind> subject_kind_from_name(std::string_view name) {
    for (const auto& [value, known] : names) {
        if (name == known) return value;
    }
    return std::nullopt;
}

} // namespace lathe
