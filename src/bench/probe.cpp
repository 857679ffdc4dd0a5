#include "bench/probe.hpp"

#include <chrono>
#include <optional>

#include "bench/engine_subject.hpp"
#include "bench/openvino_peer.hpp"
#include "bench/process.hpp"
#include "runtime/engine.hpp"
#include "support/json_fault.hpp"
#include "support/machine.hpp"

namespace lathe {

namespace {

Json describe(const std::vector<InputSpec>& specs) {
    Json list = Json::array();
    for (const auto& spec : specs)
        list.push_back({{"name", spec.name}, {"type", to_string(spec.type)}, {"shape", spec.shape}});
    return list;
}

/// Bytes in use on the first device of this kind, of all processes: their growth is this process's as long as no other
/// one changes.
std::optional<std::uint64_t> device_memory_in_use(const std::string& device) {
    const auto backend = backend_for_device(device);
    if (!backend) return std::nullopt;
    const auto sample = (*backend)->sample(0);
    return sample ? sample->memory_used_bytes : std::nullopt;
}

Result<std::unique_ptr<Subject>> open_subject(SubjectInfo info) {
    if (info.kind == SubjectKind::openvino) return make_openvino_peer(std::move(info));
    LATHE_TRY(Engine engine, Engine::load(info.file));
    return make_engine_subject(std::move(info), std::move(engine));
}

Result<Json> run_probe(const Json& request) {
    SubjectInfo info;
    std::vector<InputSpec> specs;
    try {
        const auto kind = subject_kind_from_name(request.at("kind").get<std::string>());
        if (!kind) return Error{ErrorCode::invalid_argument, "unknown kind of subject", "", ""};
        info.kind = *kind;
        info.file = request.at("file").get<std::string>();
        info.device = request.value("device", info.device);
        for (const auto& input : request.at("inputs")) {
            specs.push_back({input.at("name").get<std::string>(),
                             data_type_from_name(input.at("type").get<std::string>()), input.at("shape").get<Shape>()});
        }
    } catch (const Json::exception& error) {
        return Error{ErrorCode::parse_error, "not a probe request: " + json_fault(error), "", ""};
    }
    // Two small sets are the least; made before the clock starts.
    LATHE_TRY(const InputSets inputs, InputSets::random(std::move(specs), 1, 0));
    const auto memory_before = device_memory_in_use(info.device);
    const auto start = std::chrono::steady_clock::now();
    LATHE_TRY(const std::unique_ptr<Subject> subject, open_subject(std::move(info)));
    LATHE_CHECK(subject->prepare(inputs, no_progress()));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    LATHE_TRY(const Burst burst, subject->burst({1, 3}, no_progress()));
    // The first call is part of becoming ready (memory is allocated then), its own running time is not.
    const double call_ms = burst.call_ns.empty() ? 0 : burst.call_ns.back() * 1e-6;
    Json memory = subject->memory();
    const auto memory_after = device_memory_in_use(subject->info().device);
    if (memory.is_object() && memory_before && memory_after && *memory_after > *memory_before)
        memory["process"] = *memory_after - *memory_before;
    return Json{{"load_ms", std::max(0.0, took.count() - call_ms)},
                {"peak_rss_bytes", peak_resident_bytes()},
                {"device_memory", std::move(memory)}};
}

} // namespace

Json answer_probe(const Json& request) {
    auto answer = run_probe(request);
    if (answer) return std::move(*answer);
    const Error& error = answer.error();
    return Json{{"error", {{"code", to_string(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
}

Result<void> probe_subject(SubjectInfo& info, const std::vector<std::string>& command,
                           const std::vector<InputSpec>& inputs, Progress& progress) {
    LATHE_TRY(const auto process, JsonProcess::start(command, {}));
    const Json request{{"kind", to_string(info.kind)},
                       {"file", info.file.string()},
                       {"device", info.device},
                       {"inputs", describe(inputs)}};
    LATHE_TRY(const Json answer, process->ask(request, std::chrono::seconds(600), progress));
    info.load_ms = answer.value("load_ms", 0.0);
    info.peak_rss_bytes = answer.value("peak_rss_bytes", std::uint64_t{0});
    info.device_memory = answer.value("device_memory", Json(nullptr));
    info.peak_rss_batch = inputs.empty() || inputs[0].shape.empty() ? 0 : inputs[0].shape[0];
    return {};
}

} // namespace lathe
