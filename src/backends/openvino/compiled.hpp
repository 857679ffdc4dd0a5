#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "backends/openvino/core.hpp"
#include "backends/openvino/plan.hpp"

namespace lathe::openvino {

/// Where a part's export lies in the blob. The parts of a model hold the same weights, so all but the first are kept
/// as zstd frames that refer to the first.
struct StoredPart {
    std::span<const std::byte> bytes;
    std::span<const std::byte> reference; ///< the first part's export; empty where `bytes` is the export itself
    std::size_t size = 0;                 ///< of the export
};

/// A compiled form, or the bytes of one that is imported at first use (a process that runs only one batch size does
/// not pay for the others).
class Part {
public:
    Part(PartSpec spec, ov::CompiledModel compiled) : spec_(std::move(spec)), compiled_(std::move(compiled)) {}
    Part(PartSpec spec, StoredPart stored, ov::AnyMap properties)
        : spec_(std::move(spec)), stored_(stored), properties_(std::move(properties)) {}

    const PartSpec& spec() const { return spec_; }
    /// Safe from several threads.
    Result<ov::CompiledModel> get() const;
    /// OpenVINO's export, for the blob. Views what was loaded, where that is the export itself.
    Result<ByteChain> export_bytes() const;

private:
    PartSpec spec_;
    std::optional<StoredPart> stored_;
    ov::AnyMap properties_;
    mutable std::mutex mutex_;
    mutable std::optional<ov::CompiledModel> compiled_;
};

/// What a compiled model and its sessions share; immutable but for the lazy imports.
struct State {
    std::vector<IoInfo> inputs;
    std::vector<IoInfo> outputs;
    std::vector<std::size_t> input_ports; ///< OpenVINO's index of each input, or `unread`
    std::vector<std::size_t> output_ports;
    PlanKind kind = PlanKind::whole;
    std::vector<std::unique_ptr<Part>> parts;
    bool profiling = false;
    std::shared_ptr<const void> blob_owner;

    std::vector<PartSpec> specs() const;
};

class OpenVinoModel final : public CompiledModel {
public:
    explicit OpenVinoModel(std::shared_ptr<const State> state) : state_(std::move(state)) {}

    const std::vector<IoInfo>& inputs() const override { return state_->inputs; }
    const std::vector<IoInfo>& outputs() const override { return state_->outputs; }
    Result<std::unique_ptr<BackendSession>> make_session() const override;
    Result<std::vector<LayerInfo>> layers() const override;
    Result<ByteChain> save() const override;

private:
    std::shared_ptr<const State> state_;
};

/// Decides the plan (by rules, then by timing the candidates) and compiles its parts.
Result<std::unique_ptr<CompiledModel>> compile_model(const Model& model, const CompileOptions& options);

std::unique_ptr<BackendSession> make_session_for(std::shared_ptr<const State> state);

/// Executed layers of a compiled model, times 0.
Result<std::vector<LayerInfo>> layers_of(const ov::CompiledModel& compiled);
/// Executed layers with the times of the request's last run.
Result<std::vector<LayerInfo>> profile_of(const ov::CompiledModel& compiled, const ov::InferRequest& request);

/// blob.cpp: our container around OpenVINO's exports.
Result<ByteChain> save_blob(const State& state);
Result<std::unique_ptr<CompiledModel>> load_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                 const CompileOptions& options);

} // namespace lathe::openvino
