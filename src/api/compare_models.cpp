#include "api/compare_models.hpp"

#include <map>
#include <utility>

#include "api/interpreter.hpp"
#include "backends/openvino/ir.hpp"
#include "data/npy.hpp"
#include "evaluate/run.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {
namespace {

Result<std::map<std::string, Shape>> shapes_of(const std::vector<std::string>& texts, const Comparand& subject) {
    std::map<std::string, Shape> shapes;
    for (const std::string& text : texts) {
        LATHE_TRY(const auto parsed, parse_shape_range(text));
        std::string name = parsed.first;
        if (const auto inputs = needed_inputs(subject.model); name.empty() && !inputs.empty()) name = inputs.front();
        shapes[name] = parsed.second.opt;
    }
    return shapes;
}

/// Arrays of the file by the names of inputs; the one array of a .npy is that of the only input.
Result<std::vector<HostTensor>> inputs_of(const CompareModelsRequest& request, const Comparand& a, const Comparand& b) {
    LATHE_TRY(const auto shapes, shapes_of(request.shapes, a));
    if (request.data.empty()) return inputs_for(a, b, shapes, request.seed);
    if (request.data.extension() != ".npy") return read_npz(request.data);
    LATHE_TRY(HostTensor tensor, read_npy(request.data));
    const std::vector<std::string> inputs = needed_inputs(a.model);
    if (inputs.size() != 1) {
        return Error{ErrorCode::invalid_argument, "a .npy holds one array, but the model has more inputs",
                     request.data.string(), "give an .npz with an array for each input, by name"};
    }
    tensor.name = inputs.front();
    return std::vector<HostTensor>{std::move(tensor)};
}

/// Of OpenVINO's form too.
Result<Comparand> load(const std::filesystem::path& file) {
    if (file.extension() != ".xml") return load_comparand(file);
    LATHE_TRY(openvino::IrModel ir, openvino::IrModel::load(file));
    Comparand subject;
    subject.file = file;
    subject.model = ir.interface();
    subject.runner = [ir = std::move(ir)](const std::vector<const HostTensor*>& inputs, std::size_t threads) {
        return ir.run(inputs, threads);
    };
    return subject;
}

/// The second; what is compared with an interpreter's numbers of it is the same file.
const std::filesystem::path& second_of(const CompareModelsRequest& request) {
    return request.second.empty() ? request.first : request.second;
}

/// Has the request's interpreter compute the first one.
Result<void> interpret_first(const CompareModelsRequest& request, ModelComparison& made) {
    if (made.a.runner) {
        return Error{ErrorCode::invalid_argument, "OpenVINO's form is not run by others", request.first.string(),
                     "give the ONNX model that it was made from"};
    }
    LATHE_TRY(Interpreter interpreter,
              start_interpreter(request.against, request.progress != nullptr ? *request.progress : no_progress()));
    made.a.engine.reset();
    made.a.interpreter = std::move(interpreter.run);
    made.interpreter = std::move(interpreter.title);
    made.libraries = std::move(interpreter.libraries);
    return {};
}

IoInfo io_of(const HostTensor& tensor) {
    IoInfo info;
    info.name = tensor.name;
    info.type = tensor.type;
    info.range = {tensor.shape, tensor.shape, tensor.shape};
    return info;
}

/// The second's answers judged by the task, the first's being the truth.
Result<ComparedAnswers> compare_answers(const CompareModelsRequest& request, const ModelComparison& made) {
    if (request.data.empty()) {
        return Error{ErrorCode::invalid_argument, "--task judges answers, and random inputs have none", "--task",
                     "give real inputs with --data FILE.npz, already preprocessed"};
    }
    const Shape& given = made.inputs.front().shape;
    const Shape& answered = made.comparison.outputs_a.front().shape;
    if (!given.empty() && !answered.empty() && given.front() != answered.front()) {
        return Error{ErrorCode::mismatch,
                     std::to_string(given.front()) + " samples were given, and the outputs have " +
                         std::to_string(answered.front()) + ": the model is made for another batch",
                     request.first.string(), "give as many samples at a time as it takes"};
    }
    EngineInfo info;
    info.name = request.first.string();
    for (const HostTensor& input : made.inputs)
        info.inputs.push_back(io_of(input));
    for (const HostTensor& output : made.comparison.outputs_a)
        info.outputs.push_back(io_of(output));
    if (made.a.engine) info.labels = made.a.engine->info().labels;
    EvalRequest eval;
    eval.data = request.data;
    set_task(eval, request.task);
    LATHE_TRY(const auto judging, find_task_judging(eval, info));
    if (!judging) {
        return Error{ErrorCode::unsupported, "classification is compared by the argmax of the outputs", "--task",
                     "leave --task out"};
    }
    if (judging->one_sample) {
        return Error{ErrorCode::unsupported, "the outputs have no axis for the sample", request.first.string(),
                     "leave --task out, or compare engines with lathe eval"};
    }
    const auto floats_of = [](std::vector<HostTensor> outputs) -> Result<std::vector<HostTensor>> {
        for (HostTensor& output : outputs) {
            LATHE_TRY(output, as_floats(output.view(), output.name));
        }
        return outputs;
    };
    LATHE_TRY(const std::vector<HostTensor> first, floats_of(made.comparison.outputs_a));
    LATHE_TRY(const std::vector<HostTensor> second, floats_of(made.comparison.outputs_b));
    Batch batch;
    const Shape& shape = first.front().shape;
    for (std::int64_t i = 0; i < (shape.empty() ? 1 : shape.front()); ++i) {
        batch.names.push_back(std::to_string(i));
        batch.labels.push_back(-1);
    }
    const auto judge = judging->make();
    LATHE_CHECK(judge->add(0, batch, first));
    LATHE_CHECK(judge->add(1, batch, second));
    const TaskScore score = judge->score(1);
    if (!score.defined()) {
        return Error{ErrorCode::invalid_argument,
                     "the first model finds nothing in the samples, so " + judging->metric + " says nothing",
                     request.data.string(), "give inputs that it finds something in"};
    }
    const Interval change = judge->difference(1, 0);
    return ComparedAnswers{judging->task, judging->metric, score.agreement,
                           change.low,    change.high,     batch.names.size()};
}

ComparedValue value_of(const ComparedTensor& tensor) {
    const TensorDifference& difference = tensor.difference;
    ComparedValue value;
    value.name = difference.tensor;
    value.node_first = tensor.node_a;
    value.op_first = tensor.op_a;
    value.node_second = tensor.node_b;
    value.op_second = tensor.op_b;
    value.output = tensor.output;
    value.shape = difference.shape;
    value.max_abs = difference.max_abs;
    value.max_rel = difference.max_rel;
    value.sqnr_db = difference.sqnr_db;
    value.cosine = difference.cosine;
    value.agreement = difference.agreement;
    value.problem = difference.problem;
    value.past = difference.past;
    return value;
}

} // namespace

Result<ModelComparison> run_comparison(const CompareModelsRequest& request) {
    if (request.second.empty() && request.against.empty()) {
        return Error{ErrorCode::invalid_argument, "there is nothing to compare it with", request.first.string(),
                     "give a second model, or --against onnxruntime"};
    }
    ModelComparison made;
    LATHE_TRY(made.a, load(request.first));
    LATHE_TRY(made.b, load(second_of(request)));
    if (!request.against.empty()) LATHE_CHECK(interpret_first(request, made));
    LATHE_TRY(made.inputs, inputs_of(request, made.a, made.b));
    made.options.tolerance = {request.atol, request.rtol, request.min_sqnr_db};
    made.options.outputs_only = request.outputs_only;
    made.options.threads = request.threads;
    LATHE_TRY(made.comparison, compare(made.a, made.b, made.inputs, made.options));
    if (!request.task.name.empty()) {
        LATHE_TRY(made.answers, compare_answers(request, made));
    }
    LATHE_CHECK((request.progress != nullptr ? *request.progress : no_progress()).check());
    return made;
}

Json comparison_document(const CompareModelsRequest& request, const ModelComparison& made) {
    const Comparison& comparison = made.comparison;
    const ComparedTensor* first = comparison.first_past();
    Json document{{"kind", "compare"},
                  {"version", 1},
                  {"first", request.first.string()},
                  {"second", second_of(request).string()},
                  {"inputs", request.data.empty() ? "random" : request.data.string()}};
    if (!request.against.empty()) {
        document["against"] = request.against;
        document["libraries"] = made.libraries;
    }
    document["equal"] = first == nullptr;
    document["first_past"] = first == nullptr ? Json(nullptr) : Json(first->difference.tensor);
    document["tensors"] = Json::array();
    for (const ComparedTensor& tensor : comparison.tensors)
        document["tensors"].push_back(to_json(tensor));
    if (made.answers) {
        document["task"] = {{"name", made.answers->task},
                            {"metric", made.answers->metric},
                            {"value", made.answers->value},
                            {"delta_ci95", {made.answers->low, made.answers->high}},
                            {"samples", made.answers->samples}};
    }
    return document;
}

Result<CompareModelsResult> compare_models(const CompareModelsRequest& request) {
    LATHE_TRY(const ModelComparison made, run_comparison(request));
    CompareModelsResult result;
    result.answers = made.answers;
    for (const ComparedTensor& tensor : made.comparison.tensors)
        result.values.push_back(value_of(tensor));
    if (const ComparedTensor* first = made.comparison.first_past(); first != nullptr)
        result.first_past = first->difference.tensor;
    result.document = comparison_document(request, made).dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
