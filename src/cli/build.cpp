#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "data/preprocess.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"
#include "support/hash.hpp"

namespace lathe::cli {

namespace {

struct Options {
    std::filesystem::path model;
    std::filesystem::path output;
    std::string device = "cpu";
    std::string precision;
    std::vector<std::string> shapes;
    std::size_t workspace = 0;
    std::size_t threads = 0;
    std::string name;
    std::filesystem::path preprocess;
};

bool is_quantized(const Model& model) {
    for (const auto& node : model.graph.nodes) {
        if (node->is("QuantizeLinear") || node->is("DynamicQuantizeLinear") || node->op_type.starts_with("QLinear")) {
            return true;
        }
    }
    return false;
}

/// Digests that `lathe quantize` left in the model, for the engine's provenance.
void add_quantization_hashes(const Model& model, BuildOptions& build) {
    const std::string* text = model.find_metadata("lathe.quantization");
    if (text == nullptr) return;
    const auto json = parse_json(*text, "metadata lathe.quantization");
    if (!json || !json->is_object()) return;
    for (const auto& [key, value] : json->items()) {
        if (!value.is_string() || (!key.ends_with("digest") && !key.ends_with("hash"))) continue;
        build.hashes["quantization." + key] = value.get<std::string>();
        if (key == "data_digest") build.calibration_digest = value.get<std::string>();
    }
}

Result<void> build_engine(const Options& options, const Context& context) {
    LATHE_TRY(Model model, load_onnx(options.model));
    BuildOptions build;
    build.device = options.device;
    build.name = options.name.empty() ? options.model.stem().string() : options.name;
    build.workspace_bytes = options.workspace;
    build.threads = options.threads;
    build.command_line = context.command_line();
    build.source = options.model.string();
    if (options.precision.empty()) {
        build.precision = is_quantized(model) ? Precision::int8 : Precision::float32;
    } else {
        const auto precision = precision_from_name(options.precision);
        if (!precision) {
            return Error{ErrorCode::invalid_argument, "unknown precision \"" + options.precision + "\"", "--precision",
                         "known precisions: fp32, bf16, fp16, int8"};
        }
        build.precision = *precision;
    }
    for (const auto& text : options.shapes) {
        LATHE_TRY(auto range, parse_shape_range(text));
        if (!build.shapes.insert(range).second) {
            return Error{ErrorCode::invalid_argument, "two shapes for one input", range.first, "give --shape once"};
        }
    }
    if (!options.preprocess.empty()) {
        LATHE_TRY(const Preprocess preprocess, Preprocess::from_file(options.preprocess));
        model.set_metadata("lathe.preprocess", preprocess.to_json().dump());
    }
    LATHE_TRY(build.hashes["source"], hash_file(options.model));
    add_quantization_hashes(model, build);
    LATHE_CHECK(context.progress().check());
    context.progress().begin("compiling", 0);
    LATHE_TRY(Engine engine, Engine::build(model, build));
    context.progress().end();
    LATHE_CHECK(context.progress().check());
    LATHE_CHECK(engine.save(options.output));

    const EngineInfo& info = engine.info();
    context.print(context.bold(options.output.string()) + ": " + to_string(info.precision) + " on " + info.device +
                  ", " + std::to_string(info.file_bytes / 1'000'000) + " MB");
    for (const auto& input : info.inputs) {
        context.print("  input " + input.name + ": " + to_string(input.type) + " " + input.range.describe());
    }
    context.print_json(to_json(info));
    return {};
}

} // namespace

void add_build(Commands& commands) {
    auto options = std::make_shared<Options>();
    Context& context = commands.context();
    CLI::App& command =
        commands.add({"build",
                      "Compile an ONNX model, quantised or not, to an engine file.",
                      {"lathe build resnet50.onnx --output resnet50.engine",
                       "lathe build resnet50.int8.onnx --precision int8 --output resnet50.int8.engine",
                       "lathe build m.onnx --shape input:1x3x224x224..8x3x224x224..32x3x224x224 --output m.engine"}},
                     [options, &context] { return build_engine(*options, context); });
    command.add_option("model", options->model, "ONNX file")->required();
    command.add_option("-o,--output", options->output, "Engine file to write")->required();
    command.add_option("--device", options->device, "Device to compile for (see `lathe doctor`)")
        ->capture_default_str();
    command.add_option("--precision", options->precision,
                       "fp32, bf16, fp16 or int8; without it int8 for a quantised model, else fp32");
    command.add_option("--shape", options->shapes,
                       "NAME:SHAPE or NAME:MIN..OPT..MAX for one input; may be repeated. Without it an open batch size "
                       "becomes 1..8..32");
    command.add_option("--workspace", options->workspace, "Most scratch memory the backend may use, e.g. 1GB")
        ->transform(CLI::AsSizeValue(false));
    command.add_option("--threads", options->threads, "Threads to run on; 0 for all cores");
    command.add_option("--name", options->name, "Name in reports; else the file's");
    command.add_option("--preprocess", options->preprocess, "Preprocessing JSON, in place of the model's own");
}

} // namespace lathe::cli
