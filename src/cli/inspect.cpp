#include <algorithm>
#include <array>
#include <cstdio>

#include "api/inspect.hpp"
#include "cli/commands.hpp"
#include "runtime/engine.hpp"

namespace lathe::cli {
namespace {

struct InspectArguments {
    std::string file;
    bool layers = false;
};

/// 1234567 as "1.23 M".
std::string with_unit(double value, double step, const std::array<const char*, 5>& units) {
    std::size_t unit = 0;
    for (; value >= step && unit + 1 < units.size(); ++unit)
        value /= step;
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f%s" : "%.2f %s", value, units[unit]);
    return text.data();
}
std::string count_text(std::int64_t value) {
    return with_unit(static_cast<double>(value), 1000, {"", "k", "M", "G", "T"});
}
std::string bytes_text(std::size_t value) {
    return with_unit(static_cast<double>(value), 1024, {" B", "KiB", "MiB", "GiB", "TiB"});
}
std::string bytes_text(std::int64_t value) {
    return bytes_text(static_cast<std::size_t>(std::max<std::int64_t>(0, value)));
}

std::string type_text(const ValueInfo& info) {
    return info.type == DataType::undefined ? "unknown" : to_string(info.type);
}

void print_metadata(const Model& model, const Context& context) {
    for (const auto& [key, value] : model.metadata) {
        // Class names can be thousands; the start of a long value is enough here, --json has it whole.
        context.print("  " + key + ": " + (value.size() > 100 ? value.substr(0, 97) + "..." : value));
    }
}

void print_layers(const ModelSummary& summary, const Context& context) {
    std::vector<std::vector<std::string>> rows{{"layer", "type", "precision", "output", "MACs", "parameters"}};
    for (const LayerSummary& layer : summary.layers) {
        rows.push_back(
            {layer.name, layer.op_type, layer.precision, layer.outputs.empty() ? "" : shape_text(layer.outputs.front()),
             layer.macs == 0 ? "" : count_text(layer.macs), layer.parameters == 0 ? "" : count_text(layer.parameters)});
    }
    context.print("");
    context.print(table(rows));
}

void print_summary(const ModelSummary& summary, const Model& model, const Context& context) {
    std::string opsets;
    for (const auto& [domain, version] : summary.opsets) {
        opsets += (opsets.empty() ? "" : ", ") + (domain.empty() ? std::string("ai.onnx") : domain) + " " +
                  std::to_string(version);
    }
    context.print(context.bold(summary.name) + ": ONNX, IR version " + std::to_string(summary.ir_version) + ", opset " +
                  opsets + (summary.producer.empty() ? "" : ", by " + summary.producer));
    std::vector<std::vector<std::string>> values{{"", "name", "type", "shape"}};
    for (const ValueInfo& input : summary.inputs)
        values.push_back({"input", input.name, type_text(input), shape_text(input)});
    for (const ValueInfo& output : summary.outputs)
        values.push_back({"output", output.name, type_text(output), shape_text(output)});
    context.print(table(values));
    context.print("parameters   " + count_text(summary.parameters));
    context.print("MACs         " + count_text(summary.macs) +
                  (summary.assumed_dimensions ? " (open dimensions counted as 1)" : ""));
    if (summary.unknown_layers > 0) {
        context.warn(std::to_string(summary.unknown_layers) +
                     " layers have unknown shapes; their MACs are missing from the sum");
    }
    context.print("weights      " + bytes_text(summary.weight_bytes));
    context.print("activations  " + bytes_text(summary.activation_bytes) + ", at most " +
                  bytes_text(summary.peak_activation_bytes) + " at once");
    std::string precisions;
    for (const auto& [precision, count] : summary.precisions)
        precisions += (precisions.empty() ? "" : ", ") + std::to_string(count) + " " + precision;
    if (!precisions.empty()) context.print("precision    " + precisions + " (layers that multiply)");
    std::vector<std::pair<std::string, std::size_t>> operators(summary.operators.begin(), summary.operators.end());
    std::stable_sort(operators.begin(), operators.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [name, count] : operators)
        text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
    context.print("operators    " + std::to_string(summary.nodes) + ": " + text);
    if (!model.metadata.empty()) context.print("metadata");
    print_metadata(model, context);
}

Result<void> print_model(const InspectArguments& arguments, const Context& context) {
    LATHE_TRY(const Inspection inspection, inspect_model(arguments.file));
    print_summary(inspection.summary, inspection.model, context);
    for (const NonfiniteTensor& tensor : inspection.nonfinite) {
        context.warn("weights of " + tensor.name + " hold " + std::to_string(tensor.nans) + " NaN and " +
                     std::to_string(tensor.infinities) + " infinities");
    }
    if (arguments.layers) print_layers(inspection.summary, context);
    if (!context.json) return {};
    LATHE_TRY(const Json json, inspection_document(inspection, arguments.file, arguments.layers));
    context.print_json(json);
    return {};
}

void print_engine(const EngineInfo& info, const Context& context) {
    context.print(context.bold(info.name) + ": Lathe engine, " + to_string(info.precision) + ", device " + info.device +
                  " (" + info.backend + " " + info.library_version + ")");
    std::vector<std::vector<std::string>> values{{"", "name", "type", "shapes"}};
    for (const IoInfo& input : info.inputs)
        values.push_back({"input", input.name, to_string(input.type), input.range.describe()});
    for (const IoInfo& output : info.outputs)
        values.push_back({"output", output.name, to_string(output.type), output.range.describe()});
    context.print(table(values));
    for (std::size_t i = 0; i < info.profiles.size(); ++i) {
        std::string text;
        for (const auto& [name, range] : info.profiles[i])
            text += " " + name + ":" + range.describe();
        context.print("profile " + std::to_string(i + 1) + "    " + text);
    }
    context.print("file          " + bytes_text(info.file_bytes) + " (graph " + bytes_text(info.graph_bytes) + ", " +
                  (info.blob_bytes > 0 ? "compiled " + bytes_text(info.blob_bytes) : "compiled when loaded") + ")");
    context.print("built         " + info.time + " by Lathe " + info.lathe_version + " from " +
                  (info.source.empty() ? "a model in memory" : info.source));
    if (!info.command_line.empty()) context.print("command       " + info.command_line);
    if (!info.calibration_digest.empty()) context.print("calibration   " + info.calibration_digest);
    if (!info.preprocess.empty()) context.print("preprocessing " + info.preprocess);
    if (!info.labels.empty()) context.print("labels        " + std::to_string(info.labels.size()) + " classes");
    for (const auto& [name, digest] : info.hashes)
        context.print("hash          " + name + " " + digest);
    if (info.recompiled) context.warn("compiled anew for this machine: " + info.recompiled_reason);
}

Result<void> inspect_engine(const InspectArguments& arguments, const Context& context) {
    LATHE_TRY(const Engine engine, Engine::load(arguments.file));
    print_engine(engine.info(), context);
    Json json{{"kind", "engine"}, {"file", arguments.file}};
    json.update(to_json(engine.info()));
    if (arguments.layers) {
        LATHE_TRY(const auto layers, engine.layers());
        Json list = Json::array();
        std::vector<std::vector<std::string>> rows{{"layer", "type", "precision", "implementation"}};
        for (const LayerInfo& layer : layers) {
            list.push_back(to_json(layer));
            rows.push_back({layer.name, layer.type, layer.precision, layer.implementation});
        }
        json["layers"] = list;
        json["layers_from"] = engine.layers_from();
        context.print("\nlayers from the " + engine.layers_from());
        context.print(table(rows));
    }
    // The model inside, as it was handed to the backend.
    LATHE_TRY(const ModelPtr model, engine.model());
    const ModelSummary summary = summarize_resolved(*model);
    context.print("parameters    " + count_text(summary.parameters) + ", MACs " + count_text(summary.macs) +
                  (summary.assumed_dimensions ? " (open dimensions counted as 1)" : ""));
    json["model"] = to_json(summary, false);
    context.print_json(json);
    return {};
}

} // namespace

void add_inspect(Commands& commands) {
    auto arguments = std::make_shared<InspectArguments>();
    Context& context = commands.context();
    CLI::App& command = commands.add(
        {"inspect",
         "Show what a model or an engine is: inputs, outputs, operators, size and cost",
         {"lathe inspect model.onnx", "lathe inspect model.int8.onnx --layers", "lathe inspect int8.engine --json"}},
        [arguments, &context]() -> Result<void> {
            return is_engine_file(arguments->file) ? inspect_engine(*arguments, context)
                                                   : print_model(*arguments, context);
        });
    command.add_option("file", arguments->file, "ONNX model or engine file")->required();
    command.add_flag("--layers", arguments->layers, "One line a layer: type, precision, shape, MACs, parameters");
}

} // namespace lathe::cli
