#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "backends/openvino/tokenizer.hpp"
#include "cli/commands.hpp"
#include "cli/kserve.hpp"
#include "cli/numbers.hpp"
#include "deploy/backend_folder.hpp"
#include "deploy/triton.hpp"

namespace lathe::cli {

namespace {

struct DeployOptions {
    std::string server;
    std::vector<std::string> engines;
    std::string output;
    std::string from;
    std::string slo;
    std::string rate;
    std::string backend;
    std::string plan;
    std::string copy_backend;
    std::vector<std::string> names;
    std::int64_t max_queue = 0;
    bool pictures = false;
    bool texts = false;
    KserveOptions kserve;
};

TritonBackend backend_for(const DeployOptions& options, const EngineInfo& info) {
    if (!options.backend.empty()) return *triton_backend_from_name(options.backend);
    if (!options.plan.empty() || info.device == "tensorrt") return TritonBackend::tensorrt;
    return info.device == "cpu" ? TritonBackend::openvino : TritonBackend::lathe;
}

Result<std::optional<ServingGoal>> goal_of(const DeployOptions& options) {
    if (options.slo.empty() && options.rate.empty()) return std::optional<ServingGoal>();
    if (options.slo.empty() || options.rate.empty() || options.from.empty()) {
        return Error{ErrorCode::invalid_argument, "an objective needs --slo, --rate and --from together", "", ""};
    }
    ServingGoal goal;
    LATHE_TRY(goal.slo, parse_slo(options.slo));
    LATHE_TRY(goal.rate, parse_rate(options.rate));
    return std::optional<ServingGoal>(goal);
}

/// The bench's subject that was made from this engine file, by the file's name.
Result<std::string> subject_for(const Json& bench, const std::filesystem::path& engine, const std::string& where) {
    try {
        for (const Json& subject : bench.at("subjects")) {
            const std::filesystem::path file = subject.value("file", "");
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

Result<TritonSizing> sizing_of(const DeployOptions& options, const DeployableEngine& engine, TritonBackend backend) {
    const std::int64_t limit = batch_limit(engine.info, backend);
    TritonSizing sizing;
    if (options.from.empty()) {
        sizing.max_batch = limit;
        sizing.reason = "Not sized by measurements: the engine's largest batch, one instance.";
    } else {
        LATHE_TRY(const Json bench, read_json_file(options.from));
        LATHE_TRY(const std::string subject, subject_for(bench, engine.file, options.from));
        LATHE_TRY(const LatencyCurve curve, read_latency_curve(bench, subject, options.from));
        LATHE_TRY(const auto goal, goal_of(options));
        LATHE_TRY(sizing, size_for(curve, limit, pads_batches(backend), goal));
    }
    sizing.max_queue = options.max_queue;
    return sizing;
}

bool uses_own_plan(const DeployOptions& options, const DeployableEngine& engine, TritonBackend backend) {
    return backend == TritonBackend::tensorrt && options.plan.empty() && engine.tensorrt;
}

bool is_version_compatible(const DeployableEngine& engine) {
    return engine.tensorrt && engine.tensorrt->form.options && engine.tensorrt->form.options->version_compatible;
}

std::string name_of(const DeployOptions& options, std::size_t index) {
    return index < options.names.size() ? options.names[index]
                                        : std::filesystem::path(options.engines[index]).stem().string();
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

/// The model repository: of `kserve`, a folder beside its manifests.
std::filesystem::path repository_of(const DeployOptions& options) {
    return options.server == "kserve" ? std::filesystem::path(options.output) / "models"
                                      : std::filesystem::path(options.output);
}

Result<Json> deploy_one(const DeployOptions& options, std::size_t index, const Context& context) {
    LATHE_TRY(const DeployableEngine engine, read_deployable(options.engines[index]));
    TritonModel model;
    model.name = name_of(options, index);
    model.backend = backend_for(options, engine.info);
    if (model.backend != TritonBackend::tensorrt && !options.plan.empty()) {
        return Error{ErrorCode::invalid_argument, "a plan is for the tensorrt backend, and only that",
                     "--plan, --backend " + options.backend, "leave one of them out"};
    }
    model.info = engine.info;
    model.pictures = options.pictures;
    model.texts = options.texts;
    model.gpu = model.backend == TritonBackend::tensorrt ||
                (model.backend != TritonBackend::openvino && engine.info.device != "cpu");
    if (model.backend == TritonBackend::lathe) {
        LATHE_TRY(const auto installed, triton_backends_folder()); // before anything is written
    }
    LATHE_TRY(model.sizing, sizing_of(options, engine, model.backend));
    const std::filesystem::path repository = repository_of(options);
    LATHE_CHECK(write_triton_model(model, engine, options.plan, repository));
    const TritonSizing& sizing = model.sizing;
    const std::int64_t max_batch = has_open_batch(engine.info) ? sizing.max_batch : 0;
    context.print(context.bold((repository / model.name).string()) + ": " + to_string(model.backend) +
                  ", batches up to " + std::to_string(std::max<std::int64_t>(1, max_batch)) + ", queue delay " +
                  std::to_string(sizing.max_queue_delay_us) + " us, " + std::to_string(sizing.instances) +
                  (sizing.instances == 1 ? " instance" : " instances"));
    if (options.from.empty()) {
        context.warn("not sized by measurements, so one instance: give --from bench.json, and --slo and --rate for an "
                     "objective");
    } else {
        context.print("  " + sizing.reason);
    }
    if (!engine.tokenizer.empty() && !takes_texts(engine) && !model.texts)
        context.warn("client.py of " + model.name + " takes arrays alone: " + engine.file.string() +
                     " carries no tokenizer.json of Hugging Face's, or has inputs that texts do not fill. Engines of "
                     "older exports lack it: lathe export and build again");
    const bool other_plan = engine.info.device == "tensorrt" && model.backend != TritonBackend::tensorrt;
    if (model.backend != TritonBackend::lathe && (engine.info.device == "cuda" || other_plan))
        context.warn("Triton runs the graph of " + engine.file.string() + " with " + to_string(model.backend) +
                     ", not with " + (other_plan ? "TensorRT" : "Lathe's CUDA kernels") +
                     ": measure it there before relying on this engine's times");
    if (uses_own_plan(options, engine, model.backend))
        context.print("  the plan in " + engine.file.string() + ": for GPUs of the kind it was built on, and " +
                      engine.tensorrt->form.environment + (is_version_compatible(engine) ? " or later" : " exactly"));
    if (pads_batches(model.backend) && max_batch > 1)
        context.warn("Triton's OpenVINO backend fills every batch up to " + std::to_string(max_batch) +
                     ": a single request takes as long as a full batch; --backend onnxruntime does not fill up");
    return Json{{"model", model.name},
                {"engine", engine.file.string()},
                {"backend", to_string(model.backend)},
                {"max_batch_size", max_batch},
                {"preferred_batch_size", sizing.preferred},
                {"max_queue_delay_microseconds", sizing.max_queue_delay_us},
                {"instances", sizing.instances},
                {"gpu", model.gpu},
                {"cores", cores_of(model)},
                {"bytes", engine.mapped->bytes().size()},
                {"sized", !options.from.empty()},
                {"version_compatible", uses_own_plan(options, engine, model.backend) && is_version_compatible(engine)},
                {"reason", sizing.reason}};
}

/// Before anything is written.
Result<void> check_copy_backend(const DeployOptions& options) {
    if (options.copy_backend.empty()) return {};
    LATHE_CHECK(check_no_backend_in(options.copy_backend));
    for (const std::string& file : options.engines) {
        LATHE_TRY(const DeployableEngine engine, read_deployable(file));
        if (backend_for(options, engine.info) == TritonBackend::lathe) return {};
    }
    return Error{ErrorCode::invalid_argument, "no model here is for Lathe's backend", "--copy-backend",
                 "add --backend lathe, or leave it out"};
}

/// The folder of backends for the server; empty where it needs none of ours.
Result<std::string> backends_for(const DeployOptions& options, const Json& models) {
    if (std::ranges::none_of(models, [](const Json& model) { return model["backend"] == "lathe"; }))
        return std::string();
    LATHE_TRY(const std::filesystem::path installed, triton_backends_folder());
    if (options.copy_backend.empty()) return installed.string();
    std::filesystem::path tokenizers;
    if (options.texts) {
        LATHE_TRY(tokenizers, openvino::tokenizers_library());
    }
    LATHE_CHECK(copy_triton_backend(installed, options.copy_backend, tokenizers));
    return options.copy_backend;
}

/// The options with the backend copied beside the repository, if a model needs it. Errors: what the manifests would be
/// refused for, before anything is written.
Result<DeployOptions> for_cluster(DeployOptions options) {
    LATHE_TRY(const ClusterService service, cluster_service(options.kserve, name_of(options, 0), Json::array()));
    std::size_t own = 0;
    for (const std::string& file : options.engines) {
        LATHE_TRY(const DeployableEngine engine, read_deployable(file));
        if (backend_for(options, engine.info) == TritonBackend::lathe) ++own;
    }
    if (own > 0 && own < options.engines.size()) {
        return Error{ErrorCode::invalid_argument, "one server has one folder of backends", "--backend",
                     "give all engines the backend lathe, or deploy them as two services"};
    }
    if (!options.copy_backend.empty()) {
        return Error{ErrorCode::invalid_argument, "kserve puts the backend beside the repository", "--copy-backend",
                     "leave it out"};
    }
    if (own > 0) options.copy_backend = (std::filesystem::path(options.output) / "backends").string();
    return options;
}

Result<void> run_deploy(const DeployOptions& given, const Context& context) {
    if (given.engines.size() > 1 && !given.plan.empty())
        return Error{ErrorCode::invalid_argument, "one TensorRT engine belongs to one model", "--plan",
                     "name one engine"};
    if (given.names.size() > given.engines.size())
        return Error{ErrorCode::invalid_argument, "there are more names than engines", "--name", ""};
    LATHE_CHECK(goal_of(given));
    const bool cluster = given.server == "kserve";
    const KserveOptions usual;
    const bool asks_cluster =
        !(given.kserve.image + given.kserve.storage + given.kserve.service + given.kserve.prometheus).empty() ||
        given.kserve.servers != usual.servers || given.kserve.queue_time_ms != usual.queue_time_ms ||
        given.kserve.memory_mib != usual.memory_mib;
    if (!cluster && asks_cluster)
        return Error{
            ErrorCode::invalid_argument,
            "--image, --storage, --service, --prometheus, --servers, --queue-time-ms and --memory-mib are for a "
            "cluster",
            "deploy triton", "lathe deploy kserve"};
    DeployOptions options = given;
    if (cluster) {
        LATHE_TRY(options, for_cluster(given));
    }
    LATHE_CHECK(check_copy_backend(options));
    Json models = Json::array();
    for (std::size_t i = 0; i < options.engines.size(); ++i) {
        LATHE_CHECK(context.progress().check());
        LATHE_TRY(Json model, deploy_one(options, i, context));
        models.push_back(std::move(model));
    }
    LATHE_TRY(const std::string backends, backends_for(options, models));
    Json manifests;
    if (cluster) {
        LATHE_TRY(const ClusterService service, cluster_service(options.kserve, name_of(options, 0), models));
        LATHE_TRY(manifests, deploy_to_cluster(service, options.output, context));
    } else {
        const bool compatible =
            std::ranges::any_of(models, [](const Json& model) { return model["version_compatible"].get<bool>(); });
        context.print("serve it: tritonserver --model-repository=" + options.output +
                      (backends.empty() ? "" : " --backend-directory=" + backends) +
                      (compatible ? " --backend-config=tensorrt,version-compatible=true" : ""));
    }
    Json document{{"kind", "deploy"},
                  {"version", 1},
                  {"server", options.server},
                  {"repository", repository_of(options).string()},
                  {"backend_directory", backends.empty() ? Json() : Json(backends)},
                  {"models", std::move(models)}};
    if (cluster) document["manifests"] = std::move(manifests);
    document["command"] = context.command_line();
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_deploy(Commands& commands) {
    const auto options = std::make_shared<DeployOptions>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"deploy",
         "Write a model repository for NVIDIA Triton, sized from measured latencies, with a KServe v2 client; for "
         "Kubernetes with KServe's or plain manifests",
         {"lathe deploy triton int8.engine --output repo/ --from bench.json",
          "lathe deploy triton int8.engine --output repo/ --from bench.json --slo p99=20ms --rate 300/s",
          "lathe deploy triton int8.engine fp32.engine --name small --name exact --output repo/ --backend onnxruntime",
          "lathe deploy triton gpu.engine --output repo/ --from bench.json --copy-backend backends/",
          "lathe deploy triton trt.engine --output repo/ --from bench.json",
          "lathe deploy triton gpu.engine --plan model.plan --output repo/ --from bench.json",
          "lathe deploy kserve int8.engine --output cluster/ --image IMAGE --storage pvc://models/int8 --servers 2..8",
          "python3 repo/int8/client.py --url http://localhost:8000 photo.jpg",
          "python3 repo/minilm/client.py --text 'a quiet, moving film'"}},
        [options, &context] { return run_deploy(*options, context); });
    command.add_option("server", options->server, "triton or kserve")
        ->required()
        ->check(CLI::IsMember({"triton", "kserve"}));
    command.add_option("engines", options->engines, "Engine files")->required()->type_name("ENGINE");
    command
        .add_option(
            "-o,--output", options->output,
            "The model repository: a folder, made if needed. Of kserve: a folder for the repository (models/), the "
            "backend (backends/) and the manifests")
        ->required();
    command.add_option("--from", options->from,
                       "Results of lathe bench for these engines, at several batch sizes. Without --slo: batches that "
                       "make a sample at least 3 % cheaper than the size before; as few instances as reach 95 % of the "
                       "highest throughput measured at the largest of them");
    command.add_option("--slo", options->slo, "Objective that one machine is to hold: p99=20ms");
    command.add_option("--rate", options->rate, "Requests of one sample that one machine gets: 300/s");
    command
        .add_option(
            "--backend", options->backend,
            "lathe (this project's own, which runs the engine itself), onnxruntime, openvino or tensorrt (default: "
            "openvino for CPU engines, tensorrt for TensorRT's, else lathe)")
        ->check(CLI::IsMember({"lathe", "onnxruntime", "openvino", "tensorrt"}));
    command
        .add_option("--copy-backend", options->copy_backend,
                    "Copy Lathe's backend with the libraries that it needs into FOLDER/lathe, for servers on other "
                    "machines (default: the server is pointed to where it is installed)")
        ->type_name("FOLDER");
    command
        .add_option("--plan", options->plan,
                    "A TensorRT plan of the same graph, for the tensorrt backend; else the one in an engine for "
                    "--device tensorrt")
        ->check(CLI::ExistingFile);
    CLI::Option* const pictures = command.add_flag(
        "--pictures", options->pictures,
        "Clients send JPEG or PNG files, which Lathe's backend decodes and preprocesses as the model was "
        "trained");
    command
        .add_flag("--texts", options->texts,
                  "Clients send texts, which Lathe's backend cuts into tokens as the model was trained")
        ->excludes(pictures);
    command.add_option("--name", options->names, "The model's name, one for each engine (default: the file's)")
        ->allow_extra_args(false);
    add_kserve_options(command, options->kserve);
    command.add_option("--max-queue", options->max_queue, "Refuse requests once so many wait (default: no limit)")
        ->check(positive_number());
}

} // namespace lathe::cli
