#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/inputs.hpp"
#include "bench/subject.hpp"
#include "calibrate/ranges_file.hpp"
#include "correct/correct.hpp"
#include "data/dataset.hpp"
#include "evaluate/evaluate.hpp"
#include "lathe/engine.hpp"
#include "lathe/progress.hpp"
#include "mix/search.hpp"
#include "quantize/quantize.hpp"

namespace lathe {

struct WorkshopOptions {
    BuildOptions build; ///< device, shapes, threads, provenance; name and precision are set here
    Target target = Target::openvino;
    std::int64_t batch_size = 1;          ///< that latency is measured at
    double time_limit_s = 1.5;            ///< of timing an engine in a trial; in `time_again` and `compare` longer
    std::string output_name;              ///< that is judged; empty: all in float that end the network
    const TaskJudging* judging = nullptr; ///< by what answers are judged as well; it must outlive the workshop
    std::size_t evaluate_batch = 16;
};

/// Precisions to search over on a device. One that this very device lacks is a trial that fails.
struct DevicePrecisions {
    std::vector<Precision> floats; ///< of whole engines, FP32 first
    std::vector<Precision> bases;  ///< of what is not INT8 in an engine, see SearchOptions::bases
};
/// A GPU's usual precision is FP16; BF16 has FP32's range, for networks that overflow FP16, and FP32 loses nothing. A
/// CPU's is FP32; 16 bits need a processor that has them.
DevicePrecisions precisions_of(const std::string& device);

/// How engines compare in one interleaved run.
struct TimedEngine {
    std::string name;
    double latency_ms = 0;
    Interval latency_ci95; ///< ms
    RatioSummary speedup;  ///< of the first engine of the run over this one
    bool noisy = false;
};

/// Builds engines through the backend of `build.device`, from Q/DQ graphs in which the layers that stay float are left
/// out: the precision of every layer is in the graph.
class EngineWorkshop final : public MixWorkshop {
public:
    /// `model` (simplified), `ranges` and `samples` must outlive it. `layers`: labels of the layers that can be
    /// quantised, as quantizable_layers gives them.
    EngineWorkshop(const Model& model, const RangesFile& ranges, std::vector<std::string> layers,
                   const std::vector<Batch>& samples, WorkshopOptions options, Progress& progress)
        : model_(model), ranges_(ranges), layers_(std::move(layers)), samples_(samples), options_(std::move(options)),
          progress_(progress) {}

    /// INT8 layers are then those of `outcome`, with its corrections; it must outlive this.
    void correct_with(const CorrectOutcome& outcome) { corrected_ = &outcome; }

    Result<Trial> measure(const Mix& mix, const Trial* reference) override;
    Result<Timing> time_again(const Mix& mix, const Trial& reference) override;
    Result<std::vector<double>> gains(const Mix& base, const Mix& int8) override;

    /// Writes the mix's engine, whole or not at all; built again if it is not the one measured last.
    Result<void> save(const Mix& mix, const std::filesystem::path& output);
    /// `profiling`: sessions can tell per-layer times.
    Result<Engine> build(const Mix& mix, bool profiling = false) const;
    /// Whether the mix's engine can be built; the next comparison uses it.
    Result<bool> can_build(const Mix& mix);
    /// Times an engine (the first) in turns with those of the mixes. It should not have run larger batches.
    Result<std::vector<TimedEngine>> compare(const Engine& engine, const std::vector<Mix>& mixes);

private:
    Result<Score> judge(const Engine& engine);
    Result<Subject*> reference_subject(const Mix& mix);
    Result<const InputSets*> inputs_for(const Engine& engine);
    Result<Trial> measure_built(const Mix& mix, const Trial* reference);
    Result<Timing> time(const Engine& engine, const Mix& mix, const Trial* reference, double time_limit_s);
    /// The outputs that are judged, or with a task all of them: a batch each.
    Result<std::vector<std::vector<HostTensor>>> predict(const Engine& engine, const std::string& name) const;
    std::vector<std::string> outputs_of(const Engine& engine) const;
    void weigh_outputs();

    const Model& model_;
    const RangesFile& ranges_;
    const CorrectOutcome* corrected_ = nullptr;
    std::vector<std::string> layers_;
    const std::vector<Batch>& samples_;
    WorkshopOptions options_;
    Progress& progress_;

    std::vector<std::vector<HostTensor>> expected_; ///< the FP32 engine's outputs, a batch each
    std::optional<OutputKind> kind_;
    /// An output that noise is measured at, as the first batch tells it.
    struct NoisyOutput {
        std::size_t index = 0; ///< among those predicted
        OutputGroups groups;
        double scale = 1; ///< of its squares, so that all weigh alike
    };
    std::vector<NoisyOutput> noisy_; ///< the output to judge first
    std::unique_ptr<TaskJudge> judge_;
    std::size_t judged_ = 0; ///< networks given to it
    std::optional<InputSets> inputs_;
    std::map<std::string, std::unique_ptr<Subject>> references_; ///< by mix
    std::optional<Engine> last_;
    Mix last_mix_;
};

/// Labels of the Conv, ConvTranspose, Gemm and MatMul that the target quantises, in graph order.
Result<std::vector<std::string>> quantizable_layers(const Model& model, Target target);

} // namespace lathe
