#include "lathe/deploy.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/kserve.hpp"
#include "cli/numbers.hpp"
#include "support/json.hpp"

namespace lathe::cli {

namespace {

struct DeployArguments {
    std::string server;
    DeployRequest request;
    KserveOptions kserve;
};

void print_model(const DeployedModel& model, const Context& context) {
    if (model.generates) {
        context.print(context.bold(model.folder.string()) + ": lathe, " + std::to_string(model.instances) +
                      (model.instances == 1 ? " stream, " : " streams at once, ") +
                      (model.takes_texts ? "of texts or tokens" : "of tokens (no engine here carries a tokenizer)"));
        return;
    }
    context.print(context.bold(model.folder.string()) + ": " + model.backend + ", batches up to " +
                  std::to_string(std::max<std::int64_t>(1, model.max_batch)) + ", queue delay " +
                  std::to_string(model.max_queue_delay_us) + " us, " + std::to_string(model.instances) +
                  (model.instances == 1 ? " instance" : " instances"));
    if (model.sized) {
        context.print("  " + model.reason);
    } else {
        context.warn("not sized by measurements, so one instance: give --from bench.json, and --slo and --rate for an "
                     "objective");
    }
    if (!model.plan_environment.empty())
        context.print("  the plan in " + model.engine.string() + ": for GPUs of the kind it was built on, and " +
                      model.plan_environment + (model.version_compatible ? " or later" : " exactly"));
    for (const std::string& notice : model.notices)
        context.warn(notice);
}

void print_serving(const DeployResult& result, const DeployRequest& request, const Context& context) {
    if (request.cluster) {
        print_cluster(result, request, context);
        return;
    }
    const bool compatible = std::ranges::any_of(result.models, &DeployedModel::version_compatible);
    const std::string backends = result.backend_directory.string();
    context.print("serve it: tritonserver --model-repository=" + request.output.string() +
                  (backends.empty() ? "" : " --backend-directory=" + backends) +
                  (compatible ? " --backend-config=tensorrt,version-compatible=true" : ""));
}

Result<void> run_deploy(const DeployArguments& options, const Context& context) {
    DeployRequest request = options.request;
    if (options.server == "kserve") {
        LATHE_TRY(request.cluster, cluster_request(options.kserve));
    } else if (asks_for_a_cluster(options.kserve)) {
        return Error{
            ErrorCode::invalid_argument,
            "--image, --storage, --service, --prometheus, --servers, --queue-time-ms and --memory-mib are for a "
            "cluster",
            "deploy triton", "lathe deploy kserve"};
    }
    request.command_line = context.command_line();
    request.progress = &context.progress();
    request.deployed = [&context](const DeployedModel& model) { print_model(model, context); };
    LATHE_TRY(const DeployResult result, deploy(request));
    print_serving(result, request, context);
    LATHE_TRY(Json document, parse_json(result.document, "deploy"));
    context.print_json(std::move(document));
    return {};
}

} // namespace

void add_deploy(Commands& commands) {
    const auto options = std::make_shared<DeployArguments>();
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
          "lathe deploy triton decode.engine --generate --prefill prefill.engine --output repo/",
          "lathe deploy triton gpu.engine --plan model.plan --output repo/ --from bench.json",
          "lathe deploy kserve int8.engine --output cluster/ --image IMAGE --storage pvc://models/int8 --servers 2..8",
          "python3 repo/int8/client.py --url http://localhost:8000 photo.jpg",
          "python3 repo/minilm/client.py --text 'a quiet, moving film'"}},
        [options, &context] { return run_deploy(*options, context); });
    command.add_option("server", options->server, "triton or kserve")
        ->required()
        ->check(CLI::IsMember({"triton", "kserve"}));
    command.add_option("engines", options->request.engines, "Engine files")->required()->type_name("ENGINE");
    command
        .add_option(
            "-o,--output", options->request.output,
            "The model repository: a folder, made if needed. Of kserve: a folder for the repository (models/), the "
            "backend (backends/) and the manifests")
        ->required();
    command.add_option("--from", options->request.bench,
                       "Results of lathe bench for these engines, at several batch sizes. Without --slo: batches that "
                       "make a sample at least 3 % cheaper than the size before; as few instances as reach 95 % of the "
                       "highest throughput measured at the largest of them");
    command.add_option("--slo", options->request.slo, "Objective that one machine is to hold: p99=20ms");
    command.add_option("--rate", options->request.rate, "Requests of one sample that one machine gets: 300/s");
    command
        .add_option(
            "--backend", options->request.backend,
            "lathe (this project's own, which runs the engine itself), onnxruntime, openvino or tensorrt (default: "
            "openvino for CPU engines, tensorrt for TensorRT's, else lathe)")
        ->check(CLI::IsMember({"lathe", "onnxruntime", "openvino", "tensorrt"}));
    command
        .add_option("--copy-backend", options->request.copy_backend,
                    "Copy Lathe's backend with the libraries that it needs into FOLDER/lathe, for servers on other "
                    "machines (default: the server is pointed to where it is installed)")
        ->type_name("FOLDER");
    command
        .add_option("--plan", options->request.plan,
                    "A TensorRT plan of the same graph, for the tensorrt backend; else the one in an engine for "
                    "--device tensorrt")
        ->check(CLI::ExistingFile);
    CLI::Option* const pictures = command.add_flag(
        "--pictures", options->request.pictures,
        "Clients send JPEG or PNG files, which Lathe's backend decodes and preprocesses as the model was "
        "trained");
    CLI::Option* const pixels =
        command
            .add_flag("--pixels", options->request.pixels,
                      "Clients send decoded pictures (uint8, height x width x RGB, of any size), which Lathe's backend "
                      "resizes and normalises as the model was trained, on a GPU by itself")
            ->excludes(pictures);
    CLI::Option* const texts =
        command
            .add_flag("--texts", options->request.texts,
                      "Clients send texts, which Lathe's backend cuts into tokens as the model was trained")
            ->excludes(pictures)
            ->excludes(pixels);
    command
        .add_flag("--generate", options->request.generate,
                  "A decoder (lathe export gpt2 --phase decode): clients send tokens, or a text, which Lathe's backend "
                  "continues, with one answer a token")
        ->excludes(pictures)
        ->excludes(pixels)
        ->excludes(texts);
    command
        .add_option("--prefill", options->request.prefill,
                    "With --generate: the engine that reads prompts at once (--phase prefill), and carries the "
                    "tokenizer; without it prompts are read a token at a time")
        ->check(CLI::ExistingFile)
        ->type_name("ENGINE");
    command
        .add_option("--streams", options->request.streams,
                    "With --generate: texts that are continued at once, each in an instance with memory of its own "
                    "(default: 8)")
        ->check(positive_number());
    command.add_option("--name", options->request.names, "The model's name, one for each engine (default: the file's)")
        ->allow_extra_args(false);
    add_kserve_options(command, options->kserve);
    command
        .add_option("--max-queue", options->request.max_queue, "Refuse requests once so many wait (default: no limit)")
        ->check(positive_number());
}

} // namespace lathe::cli
