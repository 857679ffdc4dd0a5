#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "deploy/triton_config.hpp"
#include "lathe/result.hpp"
#include "plan/latency_curve.hpp"
#include "plan/slo.hpp"
#include "runtime/tensorrt_plan.hpp"
#include "support/files.hpp"
#include "support/json.hpp"

namespace lathe {

/// An engine file as far as deploying needs it; no backend is loaded.
struct DeployableEngine {
    std::filesystem::path file;
    EngineInfo info;
    std::span<const std::byte> onnx; ///< the graph inside; views `mapped`
    Json tokenizer;                  ///< the model's metadata `lathe.tokenizer`; null if it has none
    /// Where it is one for --device tensorrt; views `mapped`.
    std::optional<TensorRtFormAndPlan> tensorrt{};
    std::shared_ptr<const MappedFile> mapped{};
};
/// A client can turn texts into its inputs: they are tokens, and it carries Hugging Face's form of its tokenizer.
bool takes_texts(const DeployableEngine& engine);
/// Errors: what reading an engine file gives; invalid_argument for other files.
Result<DeployableEngine> read_deployable(const std::filesystem::path& file);

/// What the server is to hold up.
struct ServingGoal {
    Slo slo;
    double rate = 0; ///< requests of one sample a second, at one machine
};

/// Batch size, waiting time and instances. With a goal, those of `plan_capacity` for one machine; without, batches that
/// are worth it: each measured size that makes a sample at least 3 % cheaper than the one before is preferred, and the
/// oldest request waits for half the time of a single one; instances are the fewest whose throughput at the largest of
/// these sizes was at least 95 % of the most that was measured there with any number of streams. `pads`: every batch
/// costs as much as a full one. `limit`: the engine's largest batch. Errors: verification_failed (the goal cannot be
/// met), as plan_capacity.
Result<TritonSizing> size_for(const LatencyCurve& curve, std::int64_t limit, bool pads,
                              const std::optional<ServingGoal>& goal);

/// Makes the folder REPOSITORY/NAME whole: config.pbtxt, labels.txt, 1/ with the model, client.py and, for it,
/// model.json and tokenizer.json (of an engine that takes texts). `plan`: for the tensorrt backend, its engine; empty:
/// the plan in the engine file. `prefill`: of a model that generates, the engine that reads prompts, or null; client.py
/// is not written, since it does not read answers that come one by one. Errors: invalid_argument (a name that Triton
/// cannot have; the folder exists; no plan), unsupported (an operator or type that the backend lacks; a plan that
/// Triton does not load), io. Nothing is left behind.
Result<void> write_triton_model(const TritonModel& model, const DeployableEngine& engine,
                                const std::filesystem::path& plan, const std::filesystem::path& repository,
                                const DeployableEngine* prefill = nullptr);

} // namespace lathe
