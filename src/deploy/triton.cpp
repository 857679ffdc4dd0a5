#include "deploy/triton.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "backends/openvino/ir.hpp"
#include "deploy/client.hpp"
#include "deploy/staged_folder.hpp"
#include "onnx/onnx.hpp"
#include "plan/capacity.hpp"
#include "runtime/decoder.hpp"
#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "support/files.hpp"

namespace lathe {

namespace {

constexpr double worth_it = 0.97; ///< a sample's cost in a larger batch, over that in the one before
constexpr double nearly = 0.95;   ///< throughput that is as good as the most, with fewer instances

/// The fewest instances that serve nearly the most, at the batch size chosen already; and why, for the reader.
void choose_instances(TritonSizing& sizing, const CurvePoint& point) {
    const std::string at = " at batches of " + std::to_string(point.batch);
    if (point.rates.empty()) {
        sizing.reason += " One instance: no throughput was measured" + at + ".";
        return;
    }
    const auto rate = [](const auto& each) { return each.second; };
    const double most = std::ranges::max_element(point.rates, {}, rate)->second;
    const auto chosen =
        std::ranges::find_if(point.rates, [&](const auto& each) { return rate(each) >= nearly * most; });
    sizing.instances = chosen->first;
    sizing.one_thread_each = sizing.instances > 1;
    std::string measured;
    for (const auto& [streams, calls] : point.rates) {
        measured += (measured.empty() ? "" : ", ") +
                    std::to_string(std::llround(calls * static_cast<double>(point.batch))) + " with " +
                    std::to_string(streams);
    }
    sizing.reason += " Instances: the fewest within 5 % of the most samples/s" + at + " (" + measured + " at once).";
}

TritonSizing by_cost(const LatencyCurve& curve, std::int64_t limit) {
    TritonSizing sizing;
    double cheapest = 0;
    const CurvePoint* largest = &curve.points.front();
    for (const CurvePoint& point : curve.points) {
        const double cost = point.time.time.mean() / static_cast<double>(point.batch);
        if (point.batch > limit || (cheapest > 0 && cost > worth_it * cheapest)) continue;
        cheapest = cost;
        sizing.max_batch = point.batch;
        largest = &point;
        if (point.batch > 1) sizing.preferred.push_back(point.batch);
    }
    if (sizing.max_batch > 1)
        sizing.max_queue_delay_us = std::llround(500 * curve.points.front().time.time.quantile(0.5));
    sizing.reason = "Batch sizes by the cost of a sample, measured for " + curve.subject + ".";
    choose_instances(sizing, *largest);
    return sizing;
}

Result<TritonSizing> by_goal(const LatencyCurve& curve, std::int64_t limit, bool pads, const ServingGoal& goal) {
    CapacityRequest request;
    request.slo = goal.slo;
    request.arrivals = Arrivals::poisson(goal.rate);
    request.curve = curve;
    request.machines = 1;
    request.full_batches = pads;
    for (const CurvePoint& point : curve.points) {
        if (point.batch <= limit) request.batch_sizes.push_back(point.batch);
    }
    Progress silent;
    const auto planned = plan_capacity(request, silent);
    if (!planned || !planned->meets) {
        const std::string found = planned
                                      ? goal.slo.name() + " would be " + std::to_string(planned->choice.slo_ms) + " ms"
                                      : planned.error().message;
        return Error{ErrorCode::verification_failed, "one machine does not hold the objective: " + found, curve.subject,
                     "lathe plan tells how many machines do; give deploy one machine's share as --rate"};
    }
    const CapacityPlan& plan = *planned;
    TritonSizing sizing;
    sizing.max_batch = plan.choice.max_batch;
    if (sizing.max_batch > 1) sizing.preferred = {sizing.max_batch};
    sizing.max_queue_delay_us = std::llround(1000 * plan.choice.max_wait_ms);
    sizing.instances = plan.choice.instances;
    sizing.one_thread_each = plan.choice.instances > 1;
    sizing.reason = "Sized by lathe plan's simulation for " + goal.slo.name() + " within " +
                    std::to_string(std::llround(1000 * goal.slo.limit_ms)) + " us at " +
                    std::to_string(std::llround(goal.rate)) + " requests/s.";
    return sizing;
}

/// The plan in an engine for --device tensorrt, if Triton's backend, which is TensorRT's own runtime, loads it.
Result<std::span<const std::byte>> own_plan(const DeployableEngine& engine) {
    const std::string where = engine.file.string();
    if (!engine.tensorrt) {
        return Error{ErrorCode::invalid_argument,
                     "the tensorrt backend needs a TensorRT engine, and this file has none", where,
                     "build one of the same graph (lathe build --device tensorrt; or trtexec --onnx ... "
                     "--saveEngine=m.plan, and give it with --plan)"};
    }
    const TensorRtForm& form = engine.tensorrt->form;
    if (!form.environment.starts_with("TensorRT ")) {
        return Error{ErrorCode::unsupported,
                     "the plan is one of " + form.environment + ", and Triton's tensorrt backend loads TensorRT's",
                     where, "--backend onnxruntime serves the graph; or give TensorRT's plan of it with --plan"};
    }
    if (form.options && form.options->strip_weights) {
        return Error{ErrorCode::unsupported, "the plan was stripped of its weights, which Triton does not give back",
                     where, "build it without --strip-weights"};
    }
    return engine.tensorrt->plan;
}

Result<void> write_model_file(const TritonModel& model, const DeployableEngine& engine,
                              const std::filesystem::path& plan, const std::filesystem::path& file) {
    switch (model.backend) {
        case TritonBackend::lathe: return write_file(file, engine.mapped->bytes());
        case TritonBackend::onnxruntime: {
            LATHE_TRY(const Model graph, parse_onnx(engine.onnx, {}, {}, engine.mapped));
            return save_onnx(graph, file);
        }
        case TritonBackend::openvino: {
            LATHE_TRY(const Model graph, parse_onnx(engine.onnx, {}, {}, engine.mapped));
            return openvino::write_ir(graph, file);
        }
        case TritonBackend::tensorrt: {
            if (plan.empty()) {
                LATHE_TRY(const auto own, own_plan(engine));
                return write_file(file, own);
            }
            LATHE_TRY(const auto bytes, MappedFile::open(plan));
            return write_file(file, bytes->bytes());
        }
    }
    return {};
}

/// Hugging Face's tokenizer.json, as the export keeps it; null where there is none.
Json huggingface_tokenizer(const DeployableEngine& engine) {
    if (!engine.tokenizer.is_object()) return nullptr;
    const auto found = engine.tokenizer.find("huggingface");
    return found != engine.tokenizer.end() && found->is_object() ? *found : Json(nullptr);
}

/// How texts become the model's inputs: what fills up, and the lengths in tokens that the engine takes.
Json tokenizing(const DeployableEngine& engine) {
    if (!takes_texts(engine)) return nullptr;
    const auto number = [&](const char* key, std::int64_t otherwise) {
        const auto found = engine.tokenizer.find(key);
        return found != engine.tokenizer.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
    };
    std::int64_t least = 1;
    std::int64_t most = number("max_length", 512);
    for (const IoInfo& input : engine.info.inputs) {
        if (input.range.max.size() != 2) continue;
        least = std::max(least, input.range.min[1]);
        most = std::min(most, input.range.max[1]);
    }
    return {{"file", "tokenizer.json"}, {"pad_id", number("pad_id", 0)}, {"min_length", least}, {"max_length", most}};
}

/// What client.py needs to know.
Json description(const TritonModel& model, const DeployableEngine& engine) {
    Json json{{"model", model.name}, {"labels", model.info.labels}};
    json["preprocess"] =
        model.info.preprocess.empty() ? Json(nullptr) : Json::parse(model.info.preprocess, nullptr, false);
    const auto tensors = [](const std::vector<IoInfo>& list) {
        Json array = Json::array();
        for (const IoInfo& io : list)
            array.push_back({{"name", io.name}, {"type", to_string(io.type)}, {"shape", io.range.describe()}});
        return array;
    };
    json["pictures"] = model.pictures; // the server preprocesses
    json["pixels"] = model.pixels;     // and decodes nothing
    json["texts"] = model.texts;       // the server cuts them into tokens
    json["tokenizer"] = tokenizing(engine);
    json["inputs"] = tensors(model.info.inputs);
    json["outputs"] = tensors(model.info.outputs);
    return json;
}

/// A decoder for Lathe's backend, and what reads its prompts.
Result<void> check_generates(const TritonModel& model, const DeployableEngine& engine,
                             const DeployableEngine* prefill) {
    if (model.backend != TritonBackend::lathe) {
        return Error{ErrorCode::invalid_argument, to_string(model.backend) + " continues no texts",
                     engine.file.string() + ", --generate", "add --backend lathe"};
    }
    auto decoder = Decoder::of(engine.info);
    if (!decoder) return std::move(decoder).error().in(engine.file.string() + ", --generate");
    if (prefill == nullptr) return {};
    if (prefill->info.device != engine.info.device) {
        return Error{ErrorCode::invalid_argument,
                     "one model runs on one device, and the engines are for " + engine.info.device + " and " +
                         prefill->info.device,
                     prefill->file.string() + ", --prefill", "build both for one"};
    }
    auto reads = Prefill::of(prefill->info, *decoder);
    if (!reads) return std::move(reads).error().in(prefill->file.string() + ", --prefill");
    return {};
}

Result<void> check_takes_pictures(const TritonModel& model, const DeployableEngine& engine) {
    const std::string option = model.pictures ? "--pictures" : "--pixels";
    const std::string where = engine.file.string() + ", " + option;
    if (model.backend != TritonBackend::lathe) {
        return Error{ErrorCode::invalid_argument, to_string(model.backend) + " does not preprocess pictures", where,
                     "add --backend lathe"};
    }
    const bool one_input = model.info.inputs.size() == 1 && model.info.inputs[0].type == DataType::float32;
    if (!one_input || model.info.preprocess.empty() || !has_open_batch(model.info)) {
        return Error{ErrorCode::invalid_argument,
                     "the server can turn pictures into the input of an engine that has one, of float32 and with an "
                     "open batch size, and that says how (the metadata lathe.preprocess)",
                     where, "build such an engine, or leave " + option + " out"};
    }
    return {};
}

Result<void> check_takes_texts(const TritonModel& model, const DeployableEngine& engine) {
    const std::string where = engine.file.string() + ", --texts";
    if (model.backend != TritonBackend::lathe) {
        return Error{ErrorCode::invalid_argument, to_string(model.backend) + " does not cut texts into tokens", where,
                     "add --backend lathe"};
    }
    const auto is_tokens = [](const IoInfo& input) {
        return input.range.max.size() == 2 && (input.type == DataType::int64 || input.type == DataType::int32);
    };
    if (engine.tokenizer.is_null() || !std::ranges::all_of(model.info.inputs, is_tokens) ||
        !has_open_batch(model.info)) {
        return Error{ErrorCode::invalid_argument,
                     "the server can turn texts into the inputs of an engine that carries its tokenizer, reads tokens "
                     "alone and has an open batch size",
                     where, "build such an engine, or leave --texts out"};
    }
    return {};
}

Result<void> check_name(const std::string& name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    };
    if (!name.empty() && name[0] != '.' && std::ranges::all_of(name, allowed)) return {};
    return Error{ErrorCode::invalid_argument, "\"" + name + "\" is no name for a model in a repository", "--name",
                 "use letters, digits, _ - and ."};
}

} // namespace

Result<DeployableEngine> read_deployable(const std::filesystem::path& file) {
    if (!is_engine_file(file)) {
        if (!std::filesystem::exists(file))
            return Error{ErrorCode::not_found, "there is no such file", file.string(), ""};
        return Error{ErrorCode::invalid_argument, "this is no Lathe engine", file.string(),
                     "build one: lathe build model.onnx -o model.engine"};
    }
    LATHE_TRY(const auto mapped, MappedFile::open(file));
    LATHE_TRY(const EngineContents contents, parse_engine(mapped->bytes(), file.string()));
    auto info = engine_info_from_json(contents.info);
    if (!info) return std::move(info).error().in(file.string());
    LATHE_TRY(const auto graph, contents.section("graph.onnx"));
    const auto text_of = [](std::span<const std::byte> bytes) {
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    DeployableEngine engine{file, *std::move(info), graph, nullptr, std::nullopt, mapped};
    if (contents.has(tokenizer_section)) {
        LATHE_TRY(const auto bytes, contents.section(tokenizer_section));
        engine.info.tokenizer = text_of(bytes);
        if (auto json = parse_json(engine.info.tokenizer, ""); json) engine.tokenizer = *std::move(json);
    }
    if (engine.info.device == "tensorrt") {
        auto form = tensorrt_form_in(contents);
        if (!form) return std::move(form).error().in(file.string());
        engine.tensorrt = *std::move(form);
    }
    return engine;
}

bool takes_texts(const DeployableEngine& engine) {
    const auto is_filled = [](const IoInfo& input) {
        const bool known =
            input.name == "input_ids" || input.name == "attention_mask" || input.name == "token_type_ids";
        return known && input.range.max.size() == 2;
    };
    return std::ranges::all_of(engine.info.inputs, is_filled) && huggingface_tokenizer(engine).is_object();
}

Result<TritonSizing> size_for(const LatencyCurve& curve, std::int64_t limit, bool pads,
                              const std::optional<ServingGoal>& goal) {
    return goal ? by_goal(curve, limit, pads, *goal) : by_cost(curve, limit);
}

Result<void> write_triton_model(const TritonModel& model, const DeployableEngine& engine,
                                const std::filesystem::path& plan, const std::filesystem::path& repository,
                                const DeployableEngine* prefill) {
    LATHE_CHECK(check_name(model.name));
    const std::filesystem::path target = repository / model.name;
    if (std::filesystem::exists(target)) {
        return Error{ErrorCode::invalid_argument, "the model exists in the repository", target.string(),
                     "remove it, or choose another --name"};
    }
    if (model.backend == TritonBackend::tensorrt && plan.empty()) LATHE_CHECK(own_plan(engine));
    if (model.pictures || model.pixels) LATHE_CHECK(check_takes_pictures(model, engine));
    if (model.generates) LATHE_CHECK(check_generates(model, engine, prefill));
    if (model.texts && !model.generates) LATHE_CHECK(check_takes_texts(model, engine));
    LATHE_TRY(const std::string config, triton_config(model));
    LATHE_TRY(StagedFolder folder, StagedFolder::create(target));
    std::error_code failed;
    std::filesystem::create_directory(folder / "1", failed);
    if (failed) return Error{ErrorCode::io, "the folder cannot be made: " + failed.message(), target.string(), ""};
    LATHE_CHECK(write_model_file(model, engine, plan, folder / "1" / model_file_of(model.backend)));
    if (prefill != nullptr) LATHE_CHECK(write_file(folder / "1" / "prefill.engine", prefill->mapped->bytes()));
    LATHE_CHECK(write_file(folder / "config.pbtxt", config));
    if (model.generates) return folder.commit();
    if (!model.info.labels.empty()) {
        std::string labels;
        for (const std::string& label : model.info.labels)
            labels += label + "\n";
        LATHE_CHECK(write_file(folder / "labels.txt", labels));
    }
    LATHE_CHECK(write_json_file(folder / "model.json", description(model, engine)));
    if (takes_texts(engine)) LATHE_CHECK(write_json_file(folder / "tokenizer.json", huggingface_tokenizer(engine)));
    LATHE_CHECK(write_file(folder / "client.py", deploy::asset("client.py")));
    return folder.commit();
}

} // namespace lathe
