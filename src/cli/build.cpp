#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model_data.hpp"
#include "backends/api/speed_limit.hpp"
#include "backends/api/tensorrt.hpp"
#include "cli/commands.hpp"
#include "cli/numbers.hpp"
#include "cli/preprocess.hpp"
#include "cli/trtexec_names.hpp"
#include "cli/tune.hpp"
#include "data/preprocess.hpp"
#include "onnx/onnx.hpp"
#include "onnx/preconditions.hpp"
#include "quantize/pairs.hpp"
#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "runtime/tensorrt_plan.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"
#include "support/score_mask.hpp"

namespace lathe::cli {

namespace {

struct BuildArguments {
    std::filesystem::path model;
    std::filesystem::path output;
    std::string device = "cpu";
    std::string precision;
    std::vector<std::string> shapes;
    TrtexecShapes trtexec_shapes;
    std::filesystem::path layer_info;
    std::size_t workspace = 0;
    std::size_t threads = 0;
    std::string name;
    std::string preprocess;
    std::filesystem::path timing_cache;
    std::vector<std::int64_t> lengths;
    std::string tune = "default";
    std::vector<int> gpus;
    std::optional<int> optimization_level; ///< this and those down to plan: TensorRT alone
    TensorRtOptions tensorrt;
    std::filesystem::path plan;
    bool allow_fallback = false;
    bool explain = false;
    bool no_check = false;
};

/// The n-th --shape for an input belongs to the n-th profile; an input named less often keeps its first shape.
Result<std::vector<std::map<std::string, ShapeRange>>> profiles_of(const std::vector<std::string>& texts) {
    std::vector<std::map<std::string, ShapeRange>> profiles(1);
    for (const auto& text : texts) {
        LATHE_TRY(auto range, parse_shape_range(text));
        std::size_t at = 0;
        while (at < profiles.size() && profiles[at].contains(range.first))
            ++at;
        if (at == profiles.size()) profiles.emplace_back();
        profiles[at].insert(std::move(range));
    }
    for (std::size_t i = 1; i < profiles.size(); ++i)
        profiles[i].insert(profiles[0].begin(), profiles[0].end());
    return profiles;
}

Result<void> take_shapes(const BuildArguments& options, BuildOptions& build) {
    if (options.trtexec_shapes.given()) {
        if (!options.shapes.empty()) {
            return Error{ErrorCode::invalid_argument, "shapes are given in two ways", "--shape",
                         "give --shape, or --minShapes, --optShapes and --maxShapes"};
        }
        LATHE_TRY(build.shapes, shapes_of(options.trtexec_shapes));
        return {};
    }
    LATHE_TRY(auto profiles, profiles_of(options.shapes));
    build.shapes = std::move(profiles.front());
    build.more_profiles.assign(profiles.begin() + 1, profiles.end());
    return {};
}

/// Of a kernel's times beside the one that is compared; "-" where it was not measured.
std::string other_time(const TacticTiming* timing, double TacticTiming::*time) {
    return timing != nullptr && timing->*time > 0 ? fixed(timing->*time, 2) : "-";
}

/// "71 %": how near the kernel is to the least time that the machine needs; "-" where that is not known.
std::string share_of_limit(const BuildReport::Op& op, const TacticTiming* chosen) {
    if (chosen == nullptr || chosen->mixed_us <= 0 || op.limit_us <= 0) return "-";
    return fixed(100 * op.limit_us / chosen->mixed_us, 0) + " %";
}

/// What is done a microsecond, divided by `unit`.
std::string rate(double amount, const TacticTiming* chosen, double unit, int digits) {
    if (chosen == nullptr || chosen->mixed_us <= 0 || amount <= 0) return "-";
    return fixed(amount / chosen->mixed_us / unit, digits);
}

void explain(const BuildReport& report, const Context& context) {
    if (report.ops.empty()) {
        for (const auto& [precision, share] : report.precision_share)
            context.print("  " + fixed(share * 100, 1) + " % of the arithmetic in " + precision);
        for (const auto& fallback : report.fallbacks)
            context.print("  " + fallback);
        for (const auto& constant : report.clamped)
            context.print("  " + describe_clamped(constant));
        context.print("  this backend chooses its kernels by itself");
        return;
    }
    std::vector<std::vector<std::string>> rows{{"shape", "operation", "what", "chosen", "us", "of limit", "GB/s",
                                                "TFLOP/s", "warm", "cold", "next best", "us", "tried"}};
    for (const auto& op : report.ops) {
        const TacticTiming* chosen = nullptr;
        const TacticTiming* next = nullptr;
        for (const auto& timing : op.candidates) {
            if (timing.chosen) {
                chosen = &timing;
            } else if (timing.refused.empty() && timing.mixed_us > 0 &&
                       (next == nullptr || timing.mixed_us < next->mixed_us)) {
                next = &timing;
            }
        }
        rows.push_back({op.shape, op.name, op.signature, chosen != nullptr ? chosen->tactic : "-",
                        chosen != nullptr ? fixed(chosen->mixed_us, 2) : "-", share_of_limit(op, chosen),
                        rate(op.bytes, chosen, 1e3, 0), rate(op.operations, chosen, 1e6, 1),
                        other_time(chosen, &TacticTiming::warm_us), other_time(chosen, &TacticTiming::cold_us),
                        next != nullptr ? next->tactic : "-", next != nullptr ? fixed(next->mixed_us, 2) : "-",
                        std::to_string(op.candidates.size())});
    }
    context.print(table(rows));
    for (const ShapeLimit& shape : limits_by_shape(report)) {
        const std::string text = describe(shape);
        if (!text.empty()) context.print("  " + shape.shape + ": " + text);
    }
    for (const auto& [precision, share] : report.precision_share)
        context.print("  " + fixed(share * 100, 1) + " % of the arithmetic in " + precision);
    for (const auto& fallback : report.fallbacks)
        context.print("  " + fallback);
    for (const auto& constant : report.clamped)
        context.print("  " + describe_clamped(constant));
    for (const auto& note : report.check_notes)
        context.print("  " + note);
    context.print(report.check_seconds > 0
                      ? "  " + std::to_string(report.checked_operations) +
                            " operations checked in the whole network, " + fixed(report.check_seconds, 1) + " s" +
                            (report.checked_before > 0
                                 ? ", " + std::to_string(report.checked_before) + " of them in an earlier build"
                                 : "")
                      : std::string("  not checked in the whole network"));
    context.print("  memory a session: " + std::to_string(report.arena_bytes >> 10) + " KiB of activations (at least " +
                  std::to_string(report.arena_lower_bound >> 10) + "), " +
                  std::to_string(report.workspace_bytes >> 10) + " KiB workspace; weights " +
                  std::to_string(report.weight_bytes >> 10) + " KiB; built in " + fixed(report.build_seconds, 1) +
                  " s");
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

/// Who does not compute in the types that `lathe autocast` wrote says so.
void warn_about_casts(const Model& model, const BuildArguments& options, const Context& context) {
    const std::string* found = model.find_metadata("lathe.autocast");
    if (found == nullptr) return;
    if (options.device == "cuda") {
        context.warn("this device computes all of it in --precision: nodes that autocast keeps in FP32 are not kept");
    } else if (options.device == "cpu" && found->find("fp16") != std::string::npos &&
               !this_machine().has_flag("avx512_fp16") && !this_machine().has_flag("amx_fp16")) {
        context.warn("this processor has no FP16: weights are FP16's, sums and activations FP32's");
    }
}

/// Weights that were quantised for a CPU with VNNI.
void warn_about_overflow(const Model& model, const BuildArguments& options, const Context& context) {
    const TargetProfile& profile = profile_of(Target::openvino);
    if (options.device != "cpu" || range_for_this_cpu(profile) == WeightRange::full) return;
    const std::size_t layers = layers_that_overflow(model.graph, profile).size();
    if (layers == 0) return;
    context.warn("this CPU has no VNNI, and the weights of " + std::to_string(layers) +
                 (layers == 1 ? " layer" : " layers") +
                 " can overflow its 16-bit sums, which costs accuracy: quantise on such a CPU, or with --weight-range "
                 "pairs; lathe eval with --reference tells what it costs");
}

/// Into the model, since that is where the backend looks for them.
Result<void> take_tensorrt_options(const BuildArguments& options, Model& model) {
    TensorRtOptions wanted = options.tensorrt;
    wanted.optimization_level = options.optimization_level;
    if (options.device == "tensorrt") {
        if (wanted != TensorRtOptions{}) set_tensorrt_options(model, wanted);
        return {};
    }
    if (wanted == TensorRtOptions{} && options.plan.empty()) return {};
    return Error{ErrorCode::invalid_argument,
                 "--opt-level, --version-compatible, --hardware-compatible, --strip-weights, --refit, "
                 "--compute-capability and --plan are for --device tensorrt",
                 "--device " + options.device, ""};
}

/// TensorRT's own file, for trtexec and Triton.
Result<void> write_plan(const std::filesystem::path& engine, const std::filesystem::path& plan) {
    LATHE_TRY(const std::shared_ptr<const MappedFile> file, MappedFile::open(engine));
    LATHE_TRY(const EngineContents contents, parse_engine(file->bytes(), engine.string()));
    LATHE_TRY(const TensorRtFormAndPlan form, tensorrt_form_in(contents));
    return write_file(plan, form.plan);
}

Result<void> build_engine(const BuildArguments& options, const Context& context) {
    LATHE_TRY(Model model, load_onnx(options.model));
    warn_about_nonfinite(model);
    BuildOptions build;
    build.device = options.device;
    build.name = options.name.empty() ? options.model.stem().string() : options.name;
    build.workspace_bytes = options.workspace;
    build.threads = options.threads;
    build.command_line = context.command_line();
    build.source = options.model.string();
    if (!options.precision.empty()) {
        const auto precision = precision_from_name(options.precision);
        if (!precision) {
            return Error{ErrorCode::invalid_argument, "unknown precision \"" + options.precision + "\"", "--precision",
                         "known precisions: fp32, tf32, bf16, fp16, int8"};
        }
        build.precision = *precision;
    }
    LATHE_CHECK(take_shapes(options, build));
    build.lengths = options.lengths;
    build.timing_cache = options.timing_cache;
    build.allow_fallback = options.allow_fallback;
    build.check = !options.no_check;
    build.devices = options.gpus;
    build.progress = &context.progress();
    build.tune = tune_effort(options.tune);
    if (!options.preprocess.empty()) {
        LATHE_TRY(const Preprocess preprocess, preprocess_named(options.preprocess, input_specs(model)));
        model.set_metadata("lathe.preprocess", preprocess.to_json().dump());
    }
    warn_about_casts(model, options, context);
    warn_about_overflow(model, options, context);
    LATHE_CHECK(take_tensorrt_options(options, model));
    LATHE_TRY(build.hashes["source"], hash_file(options.model));
    add_quantization_hashes(model, build);
    LATHE_CHECK(check_writable({options.output, options.plan}));
    LATHE_CHECK(context.progress().check());
    context.progress().begin("compiling", 0);
    LATHE_TRY(Engine engine, Engine::build(model, build));
    context.progress().end();
    LATHE_CHECK(context.progress().check());
    LATHE_CHECK(engine.save(options.output));
    if (!options.plan.empty()) LATHE_CHECK(write_plan(options.output, options.plan));
    if (!options.layer_info.empty()) {
        LATHE_TRY(const Json layers, trtexec_layer_info(engine));
        LATHE_CHECK(write_json_file(options.layer_info, layers));
    }

    const EngineInfo& info = engine.info();
    context.print(context.bold(options.output.string()) + ": " + to_string(info.precision) + " on " + info.device +
                  ", " + std::to_string(info.file_bytes / 1'000'000) + " MB");
    for (const auto& input : info.inputs) {
        context.print("  input " + input.name + ": " + to_string(input.type) + " " + input.range.describe());
    }
    Json document{{"kind", "build"}};
    document.update(to_json(info));
    if (options.explain) {
        LATHE_TRY(const BuildReport report, engine.report());
        explain(report, context);
        document["report"] = to_json(report);
    }
    context.print_json(document);
    return {};
}

} // namespace

void add_build(Commands& commands) {
    auto options = std::make_shared<BuildArguments>();
    Context& context = commands.context();
    CLI::App& command =
        commands.add({"build",
                      "Compile an ONNX model, quantised or not, to an engine file.",
                      {"lathe build resnet50.onnx --output resnet50.engine",
                       "lathe build resnet50.int8.onnx --precision int8 --output resnet50.int8.engine",
                       "lathe build m.onnx --shape 1x3x224x224..8x3x224x224..32x3x224x224 --output m.engine",
                       "lathe build minilm.int8.onnx --lengths 16,32,64 --output minilm.int8.engine",
                       "lathe build m.onnx --device tensorrt --precision fp16 --plan m.plan --output m.engine"}},
                     [options, &context] { return build_engine(*options, context); });
    command.add_option("model", options->model, "ONNX file")->required();
    command.add_option("-o,--output", options->output, "Engine file to write")->required();
    command.add_option("--device", options->device, "Device to compile for (see `lathe doctor`)")
        ->capture_default_str();
    command.add_option("--precision", options->precision,
                       "fp32, tf32 (GPU), bf16, fp16 or int8; without it int8 for a quantised model, else fp32");
    command.add_option(
        "--shape", options->shapes,
        "NAME:SHAPE or NAME:MIN..OPT..MAX for one input (an only input needs no name); may be repeated. "
        "Without it an open batch size becomes 1..8..32. On a GPU a second one for the same input is a second profile, "
        "on the CPU one shape within the first, which gets a form of its own");
    command
        .add_option(
            "--lengths", options->lengths,
            "Texts: lengths that requests are often filled up to, such as 16,32,64 (lathe profile-data proposes "
            "them). Each gets a form of its own, at the least and at the best batch size")
        ->delimiter(',')
        ->check(positive_number());
    add_trtexec_shapes(command, options->trtexec_shapes);
    command
        .add_option("--workspace", options->workspace,
                    "Most scratch memory the backend may use, e.g. 1GB (GPU: 256MiB if not given)")
        ->transform(CLI::AsSizeValue(false));
    command.add_option("--threads", options->threads, "Threads to run on; 0 for all cores");
    command.add_option("--name", options->name, "Name in reports; else the file's");
    command.add_option("--preprocess", options->preprocess, preprocess_help());
    command.add_option(
        "--timing-cache,--timingCacheFile", options->timing_cache,
        "GPU: file of kernel times, read and added to; else one in the user's cache folder (TensorRT: none)");
    add_tune_option(command, options->tune);
    command
        .add_option("--devices,--gpus", options->gpus,
                    "GPU: indices of those to run on, separated by commas; else the first")
        ->delimiter(',')
        ->check(not_negative_number());
    command.add_flag(
        "--allow-fallback", options->allow_fallback,
        "GPU: build even where less than 90 % of the arithmetic can run in --precision; what has no GPU form "
        "runs on the CPU, with the copies counted and named (one shape an input)");
    command.add_flag("--no-check", options->no_check,
                     "GPU: do not compare the finished network with reference kernels, operation by operation");
    command
        .add_option("--opt-level,--builderOptimizationLevel", options->optimization_level,
                    "TensorRT: 0 (built fast) to 5 (searched longest); without it as --tune says, else TensorRT's own")
        ->check(CLI::Range(0, 5));
    command.add_flag("--version-compatible,--versionCompatible", options->tensorrt.version_compatible,
                     "TensorRT (not RTX): the plan loads in later versions too");
    command.add_flag("--hardware-compatible", options->tensorrt.hardware_compatible,
                     "TensorRT: the plan runs on every GPU generation from Ampere on");
    command.add_flag("--strip-weights,--stripWeights", options->tensorrt.strip_weights,
                     "TensorRT: leave weights out of the plan; a session reads them from the graph in the engine file");
    command.add_flag("--refit", options->tensorrt.refittable, "TensorRT: weights can be exchanged in the plan");
    command
        .add_option("--compute-capability", options->tensorrt.compute_capabilities,
                    "TensorRT-RTX: GPU generations to compile for, such as 89,120; else those it chooses")
        ->delimiter(',')
        ->check(positive_number());
    command.add_option("--plan", options->plan, "TensorRT: also write the plan as a file for trtexec and Triton");
    command.add_option("--exportLayerInfo", options->layer_info,
                       "Write the engine's layers as JSON, in the form of trtexec's option of this name");
    command.add_flag(
        "--explain", options->explain,
        "Tell which kernels were tried for every operation, their times (all of them with --json), and how "
        "near they are to what the machine allows");
}

} // namespace lathe::cli
