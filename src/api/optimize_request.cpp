#include "api/optimize_request.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "bench/run.hpp"
#include "evaluate/run.hpp"
#include "support/files.hpp"
#include "support/lost_inputs.hpp"
#include "support/machine.hpp"

namespace lathe {

namespace {

/// The folder may be one that holds what was given.
Result<void> spare_inputs(const OptimizeRequest& request) {
    const std::string stem = request.model.stem().string();
    std::vector<std::string> outputs;
    for (const char* ending : {".stages.json", ".simplified.onnx", ".float.onnx", ".ranges", ".int8.onnx",
                               ".int8-effort2.onnx", ".int8-effort2.engine", ".int8-bf16.engine"})
        outputs.push_back((request.output / (stem + ending)).string());
    for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16, Precision::int8})
        outputs.push_back((request.output / (stem + "." + to_string(precision) + ".engine")).string());
    for (const char* name : {"eval.json", "bench.json", "report.json", "report.html"})
        outputs.push_back((request.output / name).string());
    return refuse_lost_inputs(
        outputs, {request.model.string(), request.calibrate.string(), request.evaluate.string(), request.preprocess});
}

Result<void> check_task(const OptimizeRequest& request) {
    const std::string& name = request.task.name;
    if (name.empty()) return {};
    if (request.evaluate.empty()) {
        return Error{ErrorCode::invalid_argument, "there is no data to judge the task on", "--task",
                     "give --evaluate FOLDER"};
    }
    if (names_a_metric(name)) return look_for({name.substr(0, name.rfind(':'))});
    EvalRequest evaluation;
    evaluation.task = name;
    const auto found = evaluation_task(evaluation);
    return found ? Result<void>() : Result<void>(found.error());
}

} // namespace

Result<OptimizeRequest> completed(OptimizeRequest request) {
    constexpr std::size_t quick_samples = 200;
    if (!request.duration_s) request.duration_s = request.quick ? 0.3 : 1.5;
    if (!request.time_limit_s) request.time_limit_s = request.quick ? 1 : 4;
    if (!request.evaluate_samples) request.evaluate_samples = request.quick ? quick_samples : 0;
    if (!request.answer_limit_s) request.answer_limit_s = request.quick ? 15 : 90;
    const bool on_gpu = request.device != "cpu";
    auto& precisions = request.precisions;
    if (precisions.empty()) {
        precisions = {Precision::float32, on_gpu ? Precision::float16 : Precision::bfloat16, Precision::int8};
    }
    if (!request.against) {
        request.against = on_gpu ? std::vector<std::string>{"pytorch", "torch-compile=fp16"}
                                 : std::vector<std::string>{"pytorch", "torch-compile", "onnxruntime"};
        // Beside an engine in BF16 stands PyTorch in BF16, where the processor has it.
        if (!on_gpu && this_machine().multiplies_bfloat16() && std::ranges::count(precisions, Precision::bfloat16) > 0)
            request.against->insert(request.against->begin() + 2, "torch-compile=bf16");
    }
    if (std::ranges::count(precisions, Precision::int8) > 0 && request.calibrate.empty()) {
        return Error{ErrorCode::invalid_argument, "INT8 needs data to calibrate on", "--calibrate",
                     "give a folder of photos or arrays, or --precisions without int8"};
    }
    if (std::ranges::count(precisions, Precision::float32) == 0) {
        return Error{ErrorCode::invalid_argument, "fp32 must be among the precisions", "--precisions",
                     "every other one is judged against it"};
    }
    for (const auto& text : *request.against) {
        if (auto peer = parse_peer(text); !peer) return std::move(peer).error();
    }
    LATHE_CHECK(check_source(request.source));
    LATHE_CHECK(check_task(request));
    LATHE_CHECK(spare_inputs(request));
    if (const auto backend = backend_for_device(request.device); !backend) return backend.error();
    LATHE_CHECK(look_for({request.model.string(), request.calibrate.string(), request.evaluate.string(),
                          request.task.characters.string()}));
    return request;
}

} // namespace lathe
