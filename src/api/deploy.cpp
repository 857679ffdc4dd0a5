#include "lathe/deploy.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "backends/openvino/tokenizer.hpp"
#include "data/detokenizer.hpp"
#include "deploy/backend_folder.hpp"
#include "deploy/kubernetes.hpp"
#include "deploy/triton.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;

Result<void> check_backend(const std::string& name) {
    if (name.empty() || triton_backend_from_name(name)) return {};
    return Error{ErrorCode::invalid_argument, "Triton has no backend \"" + name + "\"", "backend",
                 "choose from lathe, onnxruntime, openvino, tensorrt"};
}

constexpr std::size_t usual_streams = 8;

TritonBackend backend_for(const DeployRequest& request, const EngineInfo& info) {
    if (!request.backend.empty()) return *triton_backend_from_name(request.backend);
    if (request.generate) return TritonBackend::lathe;
    if (!request.plan.empty() || info.device == "tensorrt") return TritonBackend::tensorrt;
    return info.device == "cpu" ? TritonBackend::openvino : TritonBackend::lathe;
}

Result<std::optional<ServingGoal>> goal_of(const DeployRequest& request) {
    if (request.slo.empty() && request.rate.empty()) return std::optional<ServingGoal>();
    if (request.slo.empty() || request.rate.empty() || request.bench.empty()) {
        return Error{ErrorCode::invalid_argument, "an objective needs --slo, --rate and --from together", "", ""};
    }
    ServingGoal goal;
    LATHE_TRY(goal.slo, parse_slo(request.slo));
    LATHE_TRY(goal.rate, parse_rate(request.rate));
    return std::optional<ServingGoal>(goal);
}

/// The bench's subject that was made from this engine file, by the file's name.
Result<std::string> subject_for(const Json& bench, const fs::path& engine, const std::string& where) {
    try {
        for (const Json& subject : bench.at("subjects")) {
            const fs::path file = subject.value("file", "");
            if (file.filename() == engine.filename()) return subject.at("name").get<std::string>();
        }
    } catch (const Json::exception&) {
        return Error{ErrorCode::parse_error, "this is not what lathe bench writes", where, ""};
    }
    return Error{ErrorCode::not_found, "the bench has not measured " + engine.filename().string(), where,
                 "measure it: lathe bench " + engine.string() + " --batch-sizes 1,2,4,8 --output bench.json"};
}

/// The largest batch: of the first profile where a plan has several, since that is the one Triton takes.
std::int64_t batch_limit(const EngineInfo& info, TritonBackend backend) {
    if (!has_open_batch(info)) return 1;
    const IoInfo& input = info.inputs.front();
    if (backend == TritonBackend::tensorrt && !info.profiles.empty()) {
        const auto first = info.profiles.front().find(input.name);
        if (first != info.profiles.front().end() && !first->second.max.empty()) return first->second.max[0];
    }
    return input.range.max[0];
}

Result<TritonSizing> sizing_of(const DeployRequest& request, const DeployableEngine& engine, TritonBackend backend) {
    const std::int64_t limit = batch_limit(engine.info, backend);
    TritonSizing sizing;
    if (request.bench.empty()) {
        sizing.max_batch = limit;
        sizing.reason = "Not sized by measurements: the engine's largest batch, one instance.";
    } else {
        const std::string where = request.bench.string();
        LATHE_TRY(const Json bench, read_json_file(request.bench));
        LATHE_TRY(const std::string subject, subject_for(bench, engine.file, where));
        LATHE_TRY(const LatencyCurve curve, read_latency_curve(bench, subject, where));
        LATHE_TRY(const auto goal, goal_of(request));
        LATHE_TRY(sizing, size_for(curve, limit, pads_batches(backend), goal));
    }
    sizing.max_queue = request.max_queue;
    return sizing;
}

bool uses_own_plan(const DeployRequest& request, const DeployableEngine& engine, TritonBackend backend) {
    return backend == TritonBackend::tensorrt && request.plan.empty() && engine.tensorrt;
}

bool is_version_compatible(const DeployableEngine& engine) {
    return engine.tensorrt && engine.tensorrt->form.options && engine.tensorrt->form.options->version_compatible;
}

std::string name_of(const DeployRequest& request, std::size_t index) {
    return index < request.names.size() ? request.names[index] : request.engines[index].stem().string();
}

/// Cores that its instances keep busy; as many as the machine that built the engine had, where it runs on all.
std::size_t cores_of(const TritonModel& model) {
    const EngineInfo& info = model.info;
    if (model.gpu || model.sizing.one_thread_each) return model.sizing.instances;
    if (info.threads == 0) {
        const auto machine = parse_json(info.machine, "machine");
        const bool known =
            machine && machine->is_object() && machine->contains("cores") && machine->at("cores").is_number_unsigned();
        return known ? std::clamp<std::size_t>(machine->at("cores").get<std::size_t>(), 1, 1024) : 1;
    }
    // Instances of Lathe's backend take the engine's threads in turns.
    return model.backend == TritonBackend::lathe ? info.threads : info.threads * model.sizing.instances;
}

/// The model repository: for a cluster, a folder beside its manifests.
fs::path repository_of(const DeployRequest& request) {
    return request.cluster ? request.output / "models" : request.output;
}

/// What a user should know of the model that was written.
std::vector<std::string> notices_of(const TritonModel& model, const DeployableEngine& engine, std::int64_t max_batch) {
    std::vector<std::string> notices;
    if (!engine.tokenizer.empty() && !takes_texts(engine) && !model.texts && !model.generates)
        notices.push_back("client.py of " + model.name + " takes arrays alone: " + engine.file.string() +
                          " carries no tokenizer.json of Hugging Face's, or has inputs that texts do not fill. Engines "
                          "of older exports lack it: lathe export and build again");
    const bool other_plan = engine.info.device == "tensorrt" && model.backend != TritonBackend::tensorrt;
    if (model.backend != TritonBackend::lathe && (engine.info.device == "cuda" || other_plan))
        notices.push_back("Triton runs the graph of " + engine.file.string() + " with " + to_string(model.backend) +
                          ", not with " + (other_plan ? "TensorRT" : "Lathe's CUDA kernels") +
                          ": measure it there before relying on this engine's times");
    if (pads_batches(model.backend) && max_batch > 1)
        notices.push_back("Triton's OpenVINO backend fills every batch up to " + std::to_string(max_batch) +
                          ": a single request takes as long as a full batch; --backend onnxruntime does not fill up");
    return notices;
}

Result<DeployedModel> deploy_one(const DeployRequest& request, std::size_t index) {
    LATHE_TRY(const DeployableEngine engine, read_deployable(request.engines[index]));
    TritonModel model;
    model.name = name_of(request, index);
    model.backend = backend_for(request, engine.info);
    if (model.backend != TritonBackend::tensorrt && !request.plan.empty()) {
        return Error{ErrorCode::invalid_argument, "a plan is for the tensorrt backend, and only that",
                     "--plan, --backend " + request.backend, "leave one of them out"};
    }
    model.info = engine.info;
    model.pictures = request.pictures;
    model.pixels = request.pixels;
    model.texts = request.texts;
    model.gpu = model.backend == TritonBackend::tensorrt ||
                (model.backend != TritonBackend::openvino && engine.info.device != "cpu");
    if (model.backend == TritonBackend::lathe) {
        LATHE_TRY(const auto installed, triton_backends_folder()); // before anything is written
    }
    std::optional<DeployableEngine> prefill;
    if (!request.prefill.empty()) {
        LATHE_TRY(prefill, read_deployable(request.prefill));
    }
    if (request.generate) {
        model.generates = true;
        const bool others = engine.info.tokenizer.empty() && prefill;
        const std::string& tokenizer = others ? prefill->info.tokenizer : engine.info.tokenizer;
        model.texts = !tokenizer.empty();
        model.gives_texts = model.texts && Detokenizer::of(tokenizer);
        model.sizing.instances = request.streams == 0 ? usual_streams : request.streams;
        model.sizing.max_queue = request.max_queue;
        model.sizing.reason = "Continues texts, so many at once as there are instances.";
    } else {
        LATHE_TRY(model.sizing, sizing_of(request, engine, model.backend));
    }
    const fs::path repository = repository_of(request);
    LATHE_CHECK(write_triton_model(model, engine, request.plan, repository, prefill ? &*prefill : nullptr));
    const bool own_plan = uses_own_plan(request, engine, model.backend);
    DeployedModel told;
    told.name = model.name;
    told.folder = repository / model.name;
    told.engine = engine.file;
    told.backend = to_string(model.backend);
    told.generates = model.generates;
    told.takes_texts = model.texts;
    told.max_batch = !model.generates && has_open_batch(engine.info) ? model.sizing.max_batch : 0;
    told.preferred_batches = model.sizing.preferred;
    told.max_queue_delay_us = model.sizing.max_queue_delay_us;
    told.instances = model.sizing.instances;
    told.gpu = model.gpu;
    told.cores = cores_of(model);
    told.bytes = engine.mapped->bytes().size();
    told.sized = !request.bench.empty();
    told.reason = model.sizing.reason;
    if (own_plan) told.plan_environment = engine.tensorrt->form.environment;
    told.version_compatible = own_plan && is_version_compatible(engine);
    told.notices = notices_of(model, engine, told.max_batch);
    return told;
}

/// How many engines are for Lathe's backend.
Result<std::size_t> for_own_backend(const DeployRequest& request) {
    std::size_t own = 0;
    for (const fs::path& file : request.engines) {
        LATHE_TRY(const DeployableEngine engine, read_deployable(file));
        if (backend_for(request, engine.info) == TritonBackend::lathe) ++own;
    }
    return own;
}

/// Before anything is written.
Result<void> check_copy_backend(const DeployRequest& request) {
    if (request.copy_backend.empty()) return {};
    LATHE_CHECK(check_no_backend_in(request.copy_backend));
    LATHE_TRY(const std::size_t own, for_own_backend(request));
    if (own > 0) return {};
    return Error{ErrorCode::invalid_argument, "no model here is for Lathe's backend", "--copy-backend",
                 "add --backend lathe, or leave it out"};
}

/// The folder of backends for the server; empty where it needs none of ours.
Result<fs::path> backends_for(const DeployRequest& request, const std::vector<DeployedModel>& models) {
    if (std::ranges::find(models, "lathe", &DeployedModel::backend) == models.end()) return fs::path();
    LATHE_TRY(const fs::path installed, triton_backends_folder());
    if (request.copy_backend.empty()) return installed;
    fs::path tokenizers;
    if (std::ranges::any_of(models, &DeployedModel::takes_texts)) {
        LATHE_TRY(tokenizers, openvino::tokenizers_library());
    }
    LATHE_CHECK(copy_triton_backend(installed, request.copy_backend, tokenizers));
    return request.copy_backend;
}

/// The service for models that were written or will be. Errors: invalid_argument.
Result<ClusterService> cluster_service(const DeployRequest& request, const std::vector<DeployedModel>& models) {
    const ClusterRequest& cluster = *request.cluster;
    ClusterService service;
    service.name = cluster.service.empty() ? name_of(request, 0) : cluster.service;
    service.image = cluster.image;
    service.storage = cluster.storage;
    service.prometheus = cluster.prometheus;
    if (!(cluster.queue_time_ms >= 0.001 && cluster.queue_time_ms <= 3.6e6))
        return Error{ErrorCode::invalid_argument, "requests wait a microsecond at least and an hour at most",
                     "--queue-time-ms", "10 is usual"};
    service.queue_time_us = std::llround(cluster.queue_time_ms * 1000);
    service.least = cluster.least_servers;
    service.most = cluster.most_servers;
    std::size_t bytes = 0;
    std::size_t cores = 0;
    for (const DeployedModel& model : models) {
        service.own_backend = service.own_backend || model.backend == "lathe";
        service.gpus = std::max<std::size_t>(service.gpus, model.gpu ? 1 : 0);
        cores += model.cores;
        bytes += model.bytes;
    }
    service.cores = std::max<std::size_t>(1, cores);
    service.memory_mib =
        cluster.memory_mib > 0 ? static_cast<std::size_t>(cluster.memory_mib) : 1024 + 3 * (bytes >> 20U);
    LATHE_CHECK(check(service));
    return service;
}

/// The request with the backend copied beside the repository, if a model needs it. Errors: what the manifests would be
/// refused for, before anything is written.
Result<DeployRequest> for_cluster(DeployRequest request) {
    LATHE_TRY(const ClusterService service, cluster_service(request, {}));
    LATHE_TRY(const std::size_t own, for_own_backend(request));
    if (own > 0 && own < request.engines.size()) {
        return Error{ErrorCode::invalid_argument, "one server has one folder of backends", "--backend",
                     "give all engines the backend lathe, or deploy them as two services"};
    }
    if (!request.copy_backend.empty()) {
        return Error{ErrorCode::invalid_argument, "kserve puts the backend beside the repository", "--copy-backend",
                     "leave it out"};
    }
    if (own > 0) request.copy_backend = request.output / "backends";
    return request;
}

/// What belongs to `generate`, and what does not.
Result<void> check_generate(const DeployRequest& request) {
    const auto refuse = [](const std::string& what, const std::string& where, const std::string& hint) {
        return Error{ErrorCode::invalid_argument, what, where, hint};
    };
    if (!request.generate) {
        if (!request.prefill.empty()) return refuse("prompts are read to be continued", "--prefill", "add --generate");
        if (request.streams > 0) return refuse("streams are texts that are continued", "--streams", "add --generate");
        return {};
    }
    if (request.pictures || request.pixels || request.texts)
        return refuse("a decoder is told by --generate alone", "--pictures, --pixels, --texts", "leave them out");
    if (!request.bench.empty()) {
        return refuse("lathe bench does not measure how a text is continued", "--from",
                      "leave it out, and say how many at once with --streams");
    }
    if (!request.prefill.empty() && request.engines.size() > 1)
        return refuse("one engine for prompts belongs to one decoder", "--prefill", "name one engine");
    return {};
}

/// What the request contradicts itself in.
Result<void> check_request(const DeployRequest& request) {
    if (request.engines.empty())
        return Error{ErrorCode::invalid_argument, "there is nothing to deploy", "engines", "give engine files"};
    if (request.output.empty())
        return Error{ErrorCode::invalid_argument, "where to write is not said", "output", "name a folder"};
    if (request.engines.size() > 1 && !request.plan.empty())
        return Error{ErrorCode::invalid_argument, "one TensorRT engine belongs to one model", "--plan",
                     "name one engine"};
    if (request.names.size() > request.engines.size())
        return Error{ErrorCode::invalid_argument, "there are more names than engines", "--name", ""};
    if (request.max_queue < 0)
        return Error{ErrorCode::invalid_argument, "no queue holds " + std::to_string(request.max_queue) + " requests",
                     "max_queue", "give a number above 0, or 0 for any"};
    if (int{request.pictures} + int{request.pixels} + int{request.texts} > 1)
        return Error{ErrorCode::invalid_argument, "a model takes files, pixels or texts, one of them",
                     "pictures, pixels, texts", "leave one of them out"};
    LATHE_CHECK(check_backend(request.backend));
    LATHE_CHECK(check_generate(request));
    if (auto goal = goal_of(request); !goal) return std::move(goal).error();
    return {};
}

Json to_json(const DeployedModel& model) {
    return {{"model", model.name},
            {"engine", model.engine.string()},
            {"backend", model.backend},
            {"max_batch_size", model.max_batch},
            {"preferred_batch_size", model.preferred_batches},
            {"max_queue_delay_microseconds", model.max_queue_delay_us},
            {"instances", model.instances},
            {"gpu", model.gpu},
            {"generates", model.generates},
            {"takes_texts", model.takes_texts},
            {"cores", model.cores},
            {"bytes", model.bytes},
            {"sized", model.sized},
            {"version_compatible", model.version_compatible},
            {"reason", model.reason}};
}

Json to_json(const DeployResult& result, const DeployRequest& request) {
    Json document{
        {"kind", "deploy"},
        {"version", 1},
        {"server", request.cluster ? "kserve" : "triton"},
        {"repository", result.repository.string()},
        {"backend_directory", result.backend_directory.empty() ? Json() : Json(result.backend_directory.string())},
        {"models", Json::array()}};
    for (const DeployedModel& model : result.models)
        document["models"].push_back(to_json(model));
    if (request.cluster) {
        document["manifests"] = Json::array();
        for (const fs::path& manifest : result.manifests)
            document["manifests"].push_back(manifest.string());
    }
    document["command"] = request.command_line;
    return document;
}

} // namespace

Result<DeployResult> deploy(const DeployRequest& given) {
    LATHE_CHECK(check_request(given));
    DeployRequest request = given;
    if (given.cluster) {
        LATHE_TRY(request, for_cluster(given));
    }
    LATHE_CHECK(check_copy_backend(request));
    const Progress& progress = request.progress != nullptr ? *request.progress : no_progress();
    DeployResult result;
    result.repository = repository_of(request);
    for (std::size_t i = 0; i < request.engines.size(); ++i) {
        LATHE_CHECK(progress.check());
        LATHE_TRY(DeployedModel model, deploy_one(request, i));
        if (request.deployed) request.deployed(model);
        result.models.push_back(std::move(model));
    }
    LATHE_TRY(result.backend_directory, backends_for(request, result.models));
    if (request.cluster) {
        LATHE_TRY(const ClusterService service, cluster_service(request, result.models));
        LATHE_TRY(const std::vector<std::string> files, write_manifests(service, request.output));
        for (const std::string& file : files)
            result.manifests.push_back(request.output / file);
        result.server = ServerResources{service.cores, service.memory_mib, service.gpus};
    }
    result.document = to_json(result, request).dump(2, ' ', false, Json::error_handler_t::replace);
    return result;
}

} // namespace lathe
