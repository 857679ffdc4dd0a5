#include <algorithm>
#include <chrono>
#include <set>

#include "backends/api/typed_graph.hpp"
#include "backends/cuda/device/cuda.hpp"
#include "backends/tensorrt/config.hpp"
#include "backends/tensorrt/library.hpp"
#include "backends/tensorrt/messages.hpp"
#include "backends/tensorrt/monitor.hpp"
#include "backends/tensorrt/network.hpp"
#include "backends/tensorrt/plan.hpp"
#include "backends/tensorrt/session.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "support/progress.hpp"

namespace lathe::tensorrt {

namespace {

using Clock = std::chrono::steady_clock;

/// What a refusal usually means, by TensorRT's words.
std::string cure_for(const std::string& reasons) {
    const auto says = [&](const char* words) { return reasons.find(words) != std::string::npos; };
    if (says("zero point") || says("zeroPt") || says("Dequantize") || says("Quantize") || says("INT32"))
        return "judge the Q/DQ with `lathe quantize --lint MODEL --target tensorrt`, or quantise the float model with "
               "`lathe quantize --target tensorrt`";
    if (says("plugin") || says("Plugin") || says("No importer"))
        return "the operation is none of TensorRT's: `lathe simplify` may fold it, else export the model without it";
    return "simplify the model first (lathe simplify); see TensorRT's operator support matrix";
}

/// What to do where the builder gave nothing.
std::string failure_cure(const TensorRtOptions& wanted, const std::string& reasons) {
    const bool gpu = cuda::device(0).has_value();
    if (builder_needs_gpu() && !gpu) return "TensorRT builds only where an NVIDIA GPU and its driver are";
    if (!gpu && (wanted.strip_weights || wanted.refittable))
        return "TensorRT-RTX makes stripped and refittable plans only where a GPU is: build there, or without "
               "--strip-weights and --refit";
    return cure_for(reasons);
}

Error refusal(const nvonnxparser::IParser& parser, const Capture& capture) {
    constexpr int most = 5;
    const int count = parser.getNbErrors();
    std::string reasons, where;
    for (int i = 0; i < std::min(count, most); ++i) {
        const nvonnxparser::IParserError& error = *parser.getError(i);
        const auto text = [](char const* words) { return std::string(words == nullptr ? "" : words); };
        const std::string name = text(error.nodeName());
        if (i == 0) where = name;
        reasons += (i == 0 ? ": " : "; ") + (name.empty() ? "the model" : name) +
                   (text(error.nodeOperator()).empty() ? "" : " (" + text(error.nodeOperator()) + ")") + ": " +
                   text(error.desc());
    }
    if (count > most) reasons += "; and " + std::to_string(count - most) + " more";
    if (count == 0) reasons = capture.because();
    return {ErrorCode::unsupported, std::string(product_name) + " refuses the model" + reasons, where,
            cure_for(reasons)};
}

/// Ranges of the model's inputs, one a profile.
Result<void> describe_inputs(const Model& model, const CompileOptions& options, Plan& plan) {
    std::vector<std::map<std::string, ShapeRange>> profiles{options.shapes};
    profiles.insert(profiles.end(), options.more_profiles.begin(), options.more_profiles.end());
    plan.profiles.resize(profiles.size());
    for (const auto& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        std::optional<ShapeRange> hull;
        for (std::size_t i = 0; i < profiles.size(); ++i) {
            const auto found = profiles[i].find(input.name);
            const auto fixed = input.shape();
            if (found == profiles[i].end() && !fixed) {
                return Error{ErrorCode::invalid_argument, "no shape was given", input.name,
                             "give one with --shape " + input.name + ":MIN..OPT..MAX"};
            }
            const ShapeRange range = found == profiles[i].end() ? ShapeRange{*fixed, *fixed, *fixed} : found->second;
            plan.profiles[i].push_back(range);
            if (!hull) {
                hull = range;
                continue;
            }
            for (std::size_t axis = 0; axis < std::min(hull->min.size(), range.min.size()); ++axis) {
                hull->min[axis] = std::min(hull->min[axis], range.min[axis]);
                hull->max[axis] = std::max(hull->max[axis], range.max[axis]);
            }
        }
        plan.inputs.push_back({input.name, input.type, *hull});
    }
    return {};
}

Result<void> describe_outputs(const nvinfer1::INetworkDefinition& network, Plan& plan) {
    for (int i = 0; i < network.getNbOutputs(); ++i) {
        const nvinfer1::ITensor& output = *network.getOutput(i);
        const DataType type = data_type(output.getType());
        if (type == DataType::undefined) {
            return Error{ErrorCode::unsupported, "TensorRT gives this output a type that Lathe cannot read",
                         output.getName(), ""};
        }
        const Shape shape = shape_of(output.getDimensions());
        plan.outputs.push_back({output.getName(), type, {shape, shape, shape}});
    }
    return {};
}

class Build {
public:
    Build(const Model& model, const CompileOptions& options)
        : model_(model), options_(options), progress_(options.progress != nullptr ? *options.progress : no_progress()) {
    }

    Result<BuiltPlan> run() {
        const auto start = Clock::now();
        plan_->environment = environment();
        plan_->precision = options_.precision;
        LATHE_CHECK(progress_.check());
        LATHE_TRY(const TypedModel typed, write_precision(model_, options_.precision));
        LATHE_CHECK(describe_inputs(typed.model, options_, *plan_));
        LATHE_TRY(builder_, library().make_builder());
        LATHE_TRY(plan_->options, tensorrt_options_of(model_));
        LATHE_CHECK(parse(typed.model));
        LATHE_CHECK(describe_outputs(*network_, *plan_));
        NetworkSummary summary = summarize(*network_);
        plan_->layers = std::move(summary.layers);
        LATHE_CHECK(audit(LayerSource::network, plan_->layers, summary.between_activations));
        LATHE_CHECK(progress_.check());
        LATHE_CHECK(compile());
        LATHE_CHECK(look_inside(summary.between_activations));
        BuildReport& report = plan_->report;
        for (const auto& [precision, bytes] : summary.weight_bytes) {
            report.weight_bytes += bytes;
            report.fallbacks.push_back(std::to_string(bytes) + " bytes of weights in " + precision);
        }
        report.fallbacks.insert(report.fallbacks.end(), typed.notes.begin(), typed.notes.end());
        report.build_seconds = std::chrono::duration<double>(Clock::now() - start).count();
        return BuiltPlan{plan_, std::move(loaded_)};
    }

private:
    /// The precision that was asked for must be there.
    Result<void> audit(LayerSource source, std::span<const LayerInfo> layers, std::set<std::string> between) {
        LATHE_CHECK(check_precision({layers, source, std::move(between)}, options_.precision,
                                    options_.allow_fallback || !options_.precision_is_asked));
        plan_->report.precision_share = precision_shares(layers);
        return {};
    }

    /// Judges the finished engine too, where a GPU loads it and the inspector tells what its layers multiply.
    Result<void> look_inside(const std::set<std::string>& between) {
        std::vector<std::string>& notes = plan_->report.fallbacks;
        if (!cuda::device(0)) {
            notes.emplace_back("layers and precisions are told from the network: no GPU here loads the engine");
            return {};
        }
        auto loaded = load_plan(plan_);
        auto found = loaded ? inspected_layers(**loaded) : Result<std::vector<LayerInfo>>(loaded.error());
        if (!found) {
            notes.push_back("layers and precisions are told from the network: " + found.error().describe());
            return {};
        }
        if (tells_the_work(*found, plan_->layers)) {
            LATHE_CHECK(audit(LayerSource::engine, *found, between));
            notes.emplace_back("layers and precisions are told from the engine");
        } else {
            notes.emplace_back("layers are told from the engine, precisions from the network: the inspector does not "
                               "tell what the engine's layers multiply");
        }
        plan_->layers = std::move(found).value();
        plan_->layer_source = LayerSource::engine;
        loaded_ = std::move(loaded).value();
        return {};
    }

    Result<void> parse(const Model& model) {
        const nvinfer1::NetworkDefinitionCreationFlags flags = network_flags();
        network_.reset(builder_->createNetworkV2(flags));
        if (!network_) return Error{ErrorCode::internal, "TensorRT gave no network", "tensorrt", ""};
        LATHE_TRY(const ByteChain pieces, onnx_pieces(model));
        if (pieces.size() > protobuf_limit) return parse_large(model);
        std::string bytes = pieces.flat();
        const Capture capture;
        LATHE_TRY(parser_, library().make_parser(*network_));
        if (!parser_->parse(bytes.data(), bytes.size(), nullptr)) return refusal(*parser_, capture);
        if (plan_->options->strip_weights) {
            plan_->graph_digest = hash_hex(std::as_bytes(std::span(bytes)));
            plan_->onnx = std::move(bytes);
        }
        return {};
    }

    /// More than a message can hold: TensorRT reads it from files, weights beside the model.
    Result<void> parse_large(const Model& model) {
        if (plan_->options->strip_weights) {
            return Error{ErrorCode::unsupported, "a model of more than 2 GB cannot be built without its weights", "",
                         "leave --strip-weights out"};
        }
        LATHE_TRY(const ScratchFolder folder, ScratchFolder::create());
        const auto file = folder.path() / "model.onnx";
        LATHE_CHECK(save_onnx(model, file));
        const Capture capture;
        LATHE_TRY(parser_, library().make_parser(*network_));
        if (parser_->parseFromFile(file.c_str(), static_cast<int>(nvinfer1::ILogger::Severity::kWARNING))) return {};
        return refusal(*parser_, capture);
    }

    Result<void> compile() {
        const TensorRtOptions& wanted = *plan_->options;
        LATHE_TRY(const std::unique_ptr<nvinfer1::IBuilderConfig> config, make_config(*builder_, options_, wanted));
        LATHE_CHECK(add_profiles(*builder_, *network_, *plan_, *config));
        TimingCache cache(options_.timing_cache);
        LATHE_CHECK(cache.attach(*config));
        BuildMonitor monitor(progress_);
        config->setProgressMonitor(&monitor);
        const Capture capture;
        const std::unique_ptr<nvinfer1::IHostMemory> memory(builder_->buildSerializedNetwork(*network_, *config));
        LATHE_CHECK(progress_.check());
        if (!memory) {
            return Error{ErrorCode::unsupported,
                         std::string(product_name) + " could not build the engine" + capture.because(), "",
                         failure_cure(wanted, capture.because())};
        }
        LATHE_CHECK(cache.save(*config));
        plan_->own.assign(static_cast<const char*>(memory->data()), memory->size());
        plan_->bytes = std::as_bytes(std::span(plan_->own));
        return {};
    }

    const Model& model_;
    const CompileOptions& options_;
    Progress& progress_;
    std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
    std::shared_ptr<const LoadedPlan> loaded_;
    // Destroyed from the last: the parser holds weights of the network.
    std::unique_ptr<nvinfer1::IBuilder> builder_;
    std::unique_ptr<nvinfer1::INetworkDefinition> network_;
    std::unique_ptr<nvonnxparser::IParser> parser_;
};

} // namespace

std::string environment() { return std::string(product_name) + " " + library().version; }

Result<BuiltPlan> build_plan(const Model& model, const CompileOptions& options) { return Build(model, options).run(); }

} // namespace lathe::tensorrt
