#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "cli/commands.hpp"
#include "support/python.hpp"

namespace lathe::cli {

namespace {

struct ExportOptions {
    std::string model;
    std::string output;
    std::string weights;
    bool random_weights = false;
    std::int64_t seed = 0;
    std::string input_size;
    int opset = 18;
    std::optional<std::int64_t> batch_size;
    bool dynamic_batch = false;
    std::vector<std::string> dynamic;
    std::string exporter = "torchscript";
    std::string labels;
    std::string preprocess;
    double tolerance = 1e-4;
    bool external_data = false;
    std::string pooling;
    bool normalize = false;
    std::string head;
    std::optional<std::int64_t> sequence_length;
    std::string phase;
    bool no_tokenizer = false;
};

/// The descriptor on which the Python side writes its failure as JSON.
constexpr int error_descriptor = 3;

std::vector<std::string> make_arguments(const ExportOptions& options, const Context& context,
                                        const PythonPlace& python) {
    std::vector<std::string> arguments = python_command(python, "lathe_export");
    const auto add = [&](const std::string& name, const std::string& value) {
        if (!value.empty()) arguments.push_back(name + "=" + value);
    };
    const auto add_flag = [&](const std::string& name, bool set) {
        if (set) arguments.push_back(name);
    };
    std::array<char, 32> tolerance{};
    std::snprintf(tolerance.data(), tolerance.size(), "%.17g", options.tolerance);
    add("--output", options.output);
    add("--weights", options.weights);
    add_flag("--random-weights", options.random_weights);
    add("--seed", std::to_string(options.seed));
    add("--input-size", options.input_size);
    add("--opset", std::to_string(options.opset));
    if (options.batch_size) add("--batch-size", std::to_string(*options.batch_size));
    add_flag("--dynamic-batch", options.dynamic_batch);
    for (const std::string& text : options.dynamic)
        add("--dynamic", text);
    add("--exporter", options.exporter);
    add("--labels", options.labels);
    add("--preprocess", options.preprocess);
    add("--tolerance", tolerance.data());
    add("--pooling", options.pooling);
    add_flag("--normalize", options.normalize);
    add("--head", options.head);
    if (options.sequence_length) add("--sequence-length", std::to_string(*options.sequence_length));
    add("--phase", options.phase);
    add_flag("--no-tokenizer", options.no_tokenizer);
    add_flag("--external-data", options.external_data);
    add_flag("--json", context.json);
    add_flag("--quiet", context.quiet);
    arguments.emplace_back("--");
    arguments.push_back(options.model);
    return arguments;
}

std::vector<std::string> make_environment(const PythonPlace& python) {
    auto own = python_environment(python);
    own.emplace_back("LATHE_ERROR_FD", std::to_string(error_descriptor));
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::string_view name = text.substr(0, text.find('='));
        const auto same = [&](const auto& pair) { return pair.first == name; };
        if (std::none_of(own.begin(), own.end(), same)) environment.emplace_back(text);
    }
    for (const auto& [name, value] : own)
        environment.push_back(name + "=" + value);
    return environment;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

/// Waits for the child; after Ctrl-C lets it clean up. A terminal sends the signal to both; a signal to this process
/// alone is passed on once.
int wait_for(pid_t child, const Progress& progress) {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> interrupted;
    bool passed_on = false;
    for (;;) {
        int status = 0;
        const pid_t ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR) return -1;
        if (!interrupted && progress.cancelled()) interrupted = Clock::now();
        if (interrupted && !passed_on && Clock::now() - *interrupted > std::chrono::milliseconds(500)) {
            ::kill(child, SIGINT);
            passed_on = true;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

ErrorCode code_from_name(const std::string& name) {
    for (const ErrorCode code :
         {ErrorCode::invalid_argument, ErrorCode::not_found, ErrorCode::parse_error, ErrorCode::unsupported,
          ErrorCode::corrupt, ErrorCode::mismatch, ErrorCode::out_of_range, ErrorCode::io, ErrorCode::out_of_memory,
          ErrorCode::verification_failed, ErrorCode::cancelled}) {
        if (name == to_string(code)) return code;
    }
    return ErrorCode::internal;
}

/// What the Python side said went wrong; or, where it could not say, how it ended.
Error failure_of(const std::string& report, int status, const std::string& python) {
    const auto json = parse_json(report, "lathe_export");
    if (json && json->is_object()) {
        const auto text = [&](const char* key) {
            return json->contains(key) && (*json)[key].is_string() ? (*json)[key].get<std::string>() : std::string();
        };
        return {code_from_name(text("code")), text("message"), text("where"), text("hint")};
    }
    if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        if (signal == SIGINT || signal == SIGTERM) {
            return {ErrorCode::cancelled, "interrupted", "", "nothing was written"};
        }
        return {signal == SIGKILL ? ErrorCode::out_of_memory : ErrorCode::internal,
                "Python was ended by signal " + std::to_string(signal), python,
                signal == SIGKILL ? "was the machine out of memory?" : ""};
    }
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return {code == 2 ? ErrorCode::invalid_argument : ErrorCode::internal,
            "the Python side of the export failed with exit code " + std::to_string(code), python,
            "its message is above"};
}

/// Runs the command to its end. Its standard output and error are ours; its failure comes through a pipe.
Result<void> run_python(std::vector<std::string> arguments, std::vector<std::string> environment,
                        const Progress& progress) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        return Error{ErrorCode::io, std::string("cannot make a pipe: ") + std::strerror(errno), "", ""};
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], error_descriptor);
    const std::string python = arguments[0];
    pid_t child = 0;
    const int spawned = ::posix_spawnp(&child, python.c_str(), &actions, nullptr, pointers(arguments).data(),
                                       pointers(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    if (spawned != 0) {
        ::close(pipe[0]);
        return Error{ErrorCode::unsupported, std::string("cannot start Python: ") + std::strerror(spawned), python,
                     "export needs Python with PyTorch: set LATHE_PYTHON to such an interpreter "
                     "(pip install -r requirements/python.txt)"};
    }
    const int status = wait_for(child, progress);
    // The report is far smaller than a pipe's buffer, so that it can be read after the end.
    std::string report;
    std::array<char, 4096> buffer{};
    for (ssize_t n = 0; (n = ::read(pipe[0], buffer.data(), buffer.size())) > 0;)
        report.append(buffer.data(), static_cast<std::size_t>(n));
    ::close(pipe[0]);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return failure_of(report, status, python);
}

} // namespace

void add_export(Commands& commands) {
    auto options = std::make_shared<ExportOptions>();
    Context& context = commands.context();
    const CommandSpec spec{
        "export",
        "PyTorch to ONNX: checked against PyTorch, with preprocessing and labels in its metadata",
        {"lathe export efficientnet-lite0 --dynamic-batch --output lite0.onnx",
         "lathe export resnet50 --weights resnet50.pth --labels classes.csv --output resnet50.onnx",
         "lathe export all-minilm-l6-v2 --pooling mean --normalize --output minilm.onnx",
         "lathe export gpt2 --random-weights --phase decode --output speed-only.onnx",
         "lathe export stable-diffusion/unet --batch-size 2 --sequence-length 77 --output unet.onnx",
         "lathe export timm/mobilenetv3_small_050 --random-weights --output speed-only.onnx",
         "lathe export net.py:make_net --weights net.pth --dynamic input:0=batch --output net.onnx"}};
    CLI::App& command = commands.add(spec, [options, &context]() -> Result<void> {
        LATHE_TRY(const PythonPlace python, find_python());
        return run_python(make_arguments(*options, context, python), make_environment(python), context.progress());
    });
    command
        .add_option(
            "model", options->model,
            "torchvision or timm name (or timm/NAME), efficientnet-lite0..4, all-minilm-l6-v2, bert-base, "
            "bert-large, distilbert-base, vit-base, vit-large, gpt2[-medium|-large|-xl], hf/FOLDER of a Hugging "
            "Face text encoder, ViT or kin, GPT-2 or diffusers' UNet, or FILE.py:FUNCTION, which returns a module or "
            "(module, example inputs)")
        ->required();
    command.add_option("-o,--output", options->output, "ONNX file to write")->required();
    command.add_option("--weights", options->weights,
                       "state_dict or checkpoint; the number of classes is read from it");
    command.add_flag("--random-weights", options->random_weights, "Seeded random weights: good for speed alone");
    command.add_option("--seed", options->seed, "Seed of the random weights")->capture_default_str();
    command.add_option("--input-size", options->input_size,
                       "HEIGHTxWIDTH (default: what the model was trained with); of a UNet's latent");
    command.add_option("--opset", options->opset, "ONNX opset")->capture_default_str();
    command.add_option("--batch-size", options->batch_size, "Fixed batch size (default 1)");
    command.add_flag("--dynamic-batch", options->dynamic_batch, "Leave the batch size free");
    command.add_option("--dynamic", options->dynamic, "NAME:AXIS=SYMBOL: leave an input's axis free; may be repeated");
    command
        .add_option("--exporter", options->exporter, "torchscript gives the leaner graph; dynamo is PyTorch's newer")
        ->check(CLI::IsMember({"torchscript", "dynamo"}))
        ->capture_default_str();
    command.add_option("--labels", options->labels, "Class names: classes.csv, .json, or text with one name a line");
    command.add_option("--preprocess", options->preprocess, "JSON that overrides the model's own preprocessing");
    command.add_option("--tolerance", options->tolerance, "Largest relative error against PyTorch")
        ->capture_default_str();
    command.add_option("--pooling", options->pooling, "Text encoders: one embedding a text (none: one a token)")
        ->check(CLI::IsMember({"none", "mean", "cls"}));
    command.add_flag("--normalize", options->normalize, "Text encoders: embeddings of length 1");
    command.add_option(
        "--head", options->head,
        "Text encoders: .npz with a vector w, weights and bias of a logistic regression on the embedding");
    command.add_option(
        "--sequence-length", options->sequence_length,
        "Text models and UNets: fixed number of tokens, with --phase decode of past ones (default: free, like the "
        "batch size)");
    command
        .add_option("--phase", options->phase,
                    "GPT-2: prefill reads a prompt (default), decode one token with past keys and values")
        ->check(CLI::IsMember({"prefill", "decode"}));
    command.add_flag("--no-tokenizer", options->no_tokenizer, "Text models: leave the tokenizer out of the metadata");
    command.add_flag("--external-data", options->external_data,
                     "Weights in a second file (done without asking above 2 GB)");
}

} // namespace lathe::cli
