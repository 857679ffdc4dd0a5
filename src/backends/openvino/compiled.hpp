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
    Part(PartSpec spec, ov::CompiledModel compiled, ov::AnyMap properties)
        : spec_(std::move(spec)), properties_(std::move(properties)), compiled_(std::move(compiled)) {}
    Part(PartSpec spec, StoredPart stored, ov::AnyMap properties)
        : spec_(std::move(spec)), stored_(stored), properties_(std::move(properties)) {}

    const PartSpec& spec() const { return spec_; }
    /// Safe from several threads.
    Result<ov::CompiledModel> get() const;
    /// OpenVINO's export, for the blob. Views what was loaded, where that is the export itself.
    Result<ByteChain> export_bytes() const;
    /// Whether OpenVINO reads `exported` as what it exported: both are run on the same numbers. Not asked, and true, of
    /// a part of open shapes, and where four times its size is more than the memory limit.
    Result<bool> reads_back(const ByteChain& exported) const;

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
    bool one_thread = false;            ///< see `run_and_wait`
    std::vector<std::size_t> passed_on; ///< by output: the input that it is, unchanged, or `unread`
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

/// Whether no shape in it depends on what it is given.
bool has_fixed_shapes(const ov::CompiledModel& compiled);

/// For trials: neither zero nor denormal. Floats in 0..1, integers 0 (a valid index everywhere).
HostTensor trial_input(const std::string& name, DataType type, Shape shape, std::uint32_t& random);

/// Whether a model and what was read from its export compute the same of the same numbers: 30 dB or more, of an error
/// of 3 %, in all outputs. Kernels are chosen by both alike, so all but a few are equal to the bit; what is lost in an
/// export leaves less than 15 dB. True also where nothing can be told: it draws at random, these inputs are no valid
/// ones, or a shape inside depends on what is given (of invalid sizes some of OpenVINO's kernels make no error but
/// write where they must not).
bool computes_the_same(ov::CompiledModel& original, ov::CompiledModel& copy);

/// blob.cpp: our container around OpenVINO's exports. Empty where `reads_back` denies one of them; of heavy networks
/// only the first are asked.
Result<ByteChain> save_blob(const State& state);
Result<std::unique_ptr<CompiledModel>> load_blob(std::span<const std::byte> blob, std::shared_ptr<const void> owner,
                                                 const CompileOptions& options);

} // namespace lathe::openvino
