#include "api/bfloat16_rest.hpp"

#include <array>
#include <memory>
#include <utility>

#include "bench/engine_subject.hpp"
#include "bench/inputs.hpp"
#include "bench/interleave.hpp"
#include "bench/statistics.hpp"
#include "mix/session_subject.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"

namespace lathe {

namespace {

/// How many times as fast `other` is.
Result<double> time_beside(const Engine& engine, const Engine& other, Progress& progress) {
    const EngineInfo& info = engine.info();
    const Shape least = info.inputs.empty() ? Shape{} : info.inputs.front().range.min;
    LATHE_TRY(auto specs, engine_inputs(info, least.empty() ? 1 : least[0]));
    LATHE_TRY(const InputSets inputs, InputSets::random(std::move(specs), 1, last_level_cache_bytes()));
    std::array<std::unique_ptr<Subject>, 2> subjects;
    std::array<Subject*, 2> turns{};
    for (std::size_t i = 0; i < 2; ++i) {
        LATHE_TRY(Session session, (i == 0 ? engine : other).make_session());
        subjects[i] = make_session_subject(i == 0 ? "int8" : "int8-bf16", std::move(session));
        LATHE_CHECK(subjects[i]->prepare(inputs, progress));
        turns[i] = subjects[i].get();
    }
    InterleaveOptions options;
    options.time_limit_s = 0.5;
    LATHE_TRY(const auto timed, interleave(turns, options, progress));
    for (const auto& one : timed)
        if (!one) return Error(one.error());
    return summarize_ratio(timed[1]->burst_medians_ns, timed[0]->burst_medians_ns).median;
}

} // namespace

Result<double> speedup_with_bfloat16_rest(const std::filesystem::path& engine, const std::filesystem::path& network,
                                          BuildOptions build, Progress& progress) {
    LATHE_TRY(const Engine plain, Engine::load(engine));
    LATHE_TRY(const Model model, load_onnx(network));
    build.precision = Precision::bfloat16;
    build.tune = TuneEffort::fast;
    const auto mixed = Engine::build(model, build);
    auto timed = mixed ? time_beside(plain, *mixed, progress) : Result<double>(mixed.error());
    if (!timed && !progress.cancelled()) return 0.0;
    return timed;
}

} // namespace lathe
