#include "bench/probe.hpp"

#include <chrono>

#include "bench/engine_subject.hpp"
#include "bench/openvino_peer.hpp"
#include "bench/process.hpp"
#include "support/machine.hpp"

namespace lathe {

namespace {

Json describe(const std::vector<InputSpec>& specs) {
    Json list = Json::array();
    for (const auto& spec : specs)
        list.push_back({{"name", spec.name}, {"type", to_string(spec.type)}, {"shape", spec.shape}});
    return list;
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
        for (const auto& input : request.at("inputs")) {
            specs.push_back({input.at("name").get<std::string>(),
                             data_type_from_name(input.at("type").get<std::string>()), input.at("shape").get<Shape>()});
        }
    } catch (const Json::exception& error) {
        return Error{ErrorCode::parse_error, std::string("not a probe request: ") + error.what(), "", ""};
    }
    // Two small sets are the least; made before the clock starts.
    LATHE_TRY(const InputSets inputs, InputSets::random(std::move(specs), 1, 0));
    const auto start = std::chrono::steady_clock::now();
    LATHE_TRY(const std::unique_ptr<Subject> subject, open_subject(std::move(info)));
    LATHE_CHECK(subject->prepare(inputs, no_progress()));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    LATHE_TRY(const Burst burst, subject->burst({1, 3}, no_progress()));
    // The first call is part of becoming ready (memory is allocated then), its own running time is not.
    const double call_ms = burst.call_ns.empty() ? 0 : burst.call_ns.back() * 1e-6;
    return Json{{"load_ms", std::max(0.0, took.count() - call_ms)}, {"peak_rss_bytes", peak_resident_bytes()}};
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
    const Json request{{"kind", to_string(info.kind)}, {"file", info.file.string()}, {"inputs", describe(inputs)}};
    LATHE_TRY(const Json answer, process->ask(request, std::chrono::seconds(600), progress));
    info.load_ms = answer.value("load_ms", 0.0);
    info.peak_rss_bytes = answer.value("peak_rss_bytes", std::uint64_t{0});
    info.peak_rss_batch = inputs.empty() || inputs[0].shape.empty() ? 0 : inputs[0].shape[0];
    return {};
}

} // namespace lathe
