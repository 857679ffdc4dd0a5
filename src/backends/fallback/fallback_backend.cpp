#include "backends/fallback/fallback_backend.hpp"

#include <algorithm>

#include "backends/cuda/plan/cut.hpp"
#include "backends/fallback/split_form.hpp"
#include "backends/fallback/split_model.hpp"
#include "onnx/onnx.hpp"
#include "support/log.hpp"

namespace lathe {
namespace {

/// How a part of the host is compiled: as it stands, in FP32 (which runs Q/DQ as they are, too).
CompileOptions host_options(std::size_t threads, Progress* progress) {
    CompileOptions options;
    options.threads = threads;
    options.batch_plan = BatchPlan::whole;
    options.progress = progress;
    return options;
}

/// One shape an input, in the order of the model's inputs.
Result<std::vector<Shape>> only_shapes(const Model& model, const CompileOptions& options) {
    std::vector<Shape> shapes;
    const auto several = [](const std::string& input, const std::string& what) {
        return Error{ErrorCode::unsupported, "an engine with parts on the CPU takes one shape, and " + what, input,
                     "give one size: --shape " + (input.empty() ? std::string("NAME") : input) + ":1x3x640x640, say"};
    };
    if (!options.more_profiles.empty()) return several("", "several profiles were given");
    for (const ValueInfo& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        if (const auto given = options.shapes.find(input.name); given != options.shapes.end()) {
            if (given->second.min != given->second.max)
                return several(input.name, "the range " + given->second.describe() + " was given");
            shapes.push_back(given->second.opt);
            continue;
        }
        const auto shape = input.shape();
        if (!shape || std::any_of(shape->begin(), shape->end(), [](std::int64_t size) { return size < 0; }))
            return several(input.name, "the input has sizes that are not fixed");
        shapes.push_back(*shape);
    }
    return shapes;
}

/// In a line: how much is on the CPU, and of the first why. The report names all.
void tell(const cuda::Cut& cut) {
    std::size_t nodes = 0, parts = 0;
    std::string first;
    for (const cuda::Part& part : cut.parts) {
        if (part.gpu) continue;
        ++parts;
        nodes += part.model.graph.nodes.size();
        if (first.empty() && !part.reasons.empty()) first = part.reasons.front();
    }
    log(LogLevel::warning, std::to_string(nodes) + " nodes run on the CPU, in " + std::to_string(parts) +
                               (parts == 1 ? " part" : " parts") + ", and " + std::to_string(cut.copied.size()) +
                               " values are copied in each run (--explain names all); the first: " + first);
}

class FallbackBackend final : public Backend {
public:
    FallbackBackend(std::unique_ptr<Backend> gpu, const Backend& host) : gpu_(std::move(gpu)), host_(host) {}

    std::string name() const override { return gpu_->name(); }
    std::string device() const override { return gpu_->device(); }
    Availability availability() const override { return gpu_->availability(); }
    Support supports(const Node& node, const Model& model) const override { return gpu_->supports(node, model); }
    std::string blob_key() const override { return gpu_->blob_key(); }
    Traits traits() const override { return gpu_->traits(); }
    std::optional<DeviceSample> sample(int device) const override { return gpu_->sample(device); }
    std::vector<int> cpus_near(int device) const override { return gpu_->cpus_near(device); }
    bool loads(const std::string& key, std::span<const std::byte> blob) const override {
        return is_split_form(blob) ? key == blob_key() : gpu_->loads(key, blob);
    }
    Result<std::unique_ptr<ActivationSource>> observe(const Model& model, std::vector<std::string> tensors,
                                                      std::size_t threads) const override {
        return gpu_->observe(model, std::move(tensors), threads);
    }

    Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const override {
        auto whole = gpu_->compile(model, options);
        if (whole || !options.allow_fallback) return whole;
        const ErrorCode code = whole.error().code;
        if (code != ErrorCode::unsupported && code != ErrorCode::out_of_range) return whole;
        if (!gpu_->availability().available) return whole;
        return compile_parts(model, options);
    }

    Result<std::unique_ptr<CompiledModel>> load(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                const CompileOptions& options) const override {
        if (!is_split_form(blob)) return gpu_->load(blob, std::move(owner), options);
        LATHE_TRY(SplitForm form, read_split_form(blob));
        std::vector<SplitPart> parts;
        for (SplitFormPart& each : form.parts) {
            SplitPart part;
            part.gpu = each.gpu;
            part.reasons = std::move(each.reasons);
            if (each.gpu) {
                LATHE_TRY(part.model, gpu_->load(each.bytes, owner, options));
            } else {
                part.onnx.assign(reinterpret_cast<const char*>(each.bytes.data()), each.bytes.size());
                auto model = parse_onnx(each.bytes);
                if (!model) return std::move(model).error().in("the engine's part for the CPU");
                LATHE_TRY(part.model, host_.compile(*model, host_options(options.threads, options.progress)));
            }
            parts.push_back(std::move(part));
        }
        return SplitModel::make(std::move(form.inputs), std::move(form.outputs), std::move(parts));
    }

private:
    Result<std::unique_ptr<CompiledModel>> compile_parts(const Model& model, const CompileOptions& options) const {
        LATHE_TRY(const std::vector<Shape> shapes, only_shapes(model, options));
        LATHE_TRY(cuda::Cut cut, cuda::cut(model, shapes, options.precision));
        std::vector<SplitPart> parts;
        for (cuda::Part& piece : cut.parts) {
            SplitPart part;
            part.gpu = piece.gpu;
            part.reasons = piece.reasons;
            if (piece.gpu) {
                CompileOptions own = options;
                own.shapes.clear();
                LATHE_TRY(part.model, gpu_->compile(piece.model, own));
            } else {
                LATHE_TRY(part.onnx, serialize_onnx(piece.model));
                auto made = host_.compile(piece.model, host_options(options.threads, options.progress));
                if (!made) return std::move(made).error().in("the part for the CPU");
                part.model = std::move(*made);
            }
            parts.push_back(std::move(part));
        }
        tell(cut);
        std::vector<IoInfo> inputs, outputs;
        std::size_t at = 0;
        for (const ValueInfo& input : model.graph.inputs) {
            if (model.graph.initializer(input.name) != nullptr) continue;
            const Shape& shape = shapes[at++];
            inputs.push_back({input.name, input.type, {shape, shape, shape}});
        }
        for (const ValueInfo& output : model.graph.outputs) {
            for (const SplitPart& part : parts)
                for (const IoInfo& made : part.model->outputs())
                    if (made.name == output.name) outputs.push_back(made);
        }
        return SplitModel::make(std::move(inputs), std::move(outputs), std::move(parts));
    }

    std::unique_ptr<Backend> gpu_;
    const Backend& host_;
};

} // namespace

std::unique_ptr<Backend> make_fallback_backend(std::unique_ptr<Backend> gpu, const Backend& host) {
    return std::make_unique<FallbackBackend>(std::move(gpu), host);
}

} // namespace lathe
