#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"

namespace lathe {

/// A part of a SplitModel. `model` reads the split model's inputs and results of earlier parts, by name.
struct SplitPart {
    bool gpu = false;
    std::shared_ptr<const CompiledModel> model;
    std::string onnx;                 ///< what a part of the host is compiled from
    std::vector<std::string> reasons; ///< of a part of the host: its nodes, and why each is there
};

/// A model whose parts run one after the other, those of the GPU on the same device; what goes between them is copied
/// through the host's memory. Immutable; shared by its sessions.
class SplitModel final : public CompiledModel {
public:
    /// Errors: corrupt (a part or an output reads what nobody makes).
    static Result<std::unique_ptr<CompiledModel>> make(std::vector<IoInfo> inputs, std::vector<IoInfo> outputs,
                                                       std::vector<SplitPart> parts);

    const std::vector<IoInfo>& inputs() const override { return inputs_; }
    const std::vector<IoInfo>& outputs() const override { return outputs_; }
    Result<std::unique_ptr<BackendSession>> make_session() const override;
    Result<std::unique_ptr<BackendSession>> make_session_on(int device) const override;
    Result<std::vector<LayerInfo>> layers() const override;
    /// Parts of the GPU in their compiled form, those of the host as ONNX.
    Result<ByteChain> save() const override;
    Result<EngineMemory> memory() const override;
    Result<BuildReport> report() const override;

    /// Where the input of a part, or an output, comes from: part -1 is the split model's own input.
    struct Source {
        int part = -1;
        std::size_t index = 0;
    };
    /// What sessions share.
    struct Wiring {
        std::vector<SplitPart> parts;
        std::vector<std::vector<Source>> inputs; ///< by part and input
        std::vector<Source> outputs;
    };
    /// Bytes that a run copies between parts; values of unknown size count as 0.
    std::size_t copied_bytes() const;

private:
    SplitModel() = default;
    Result<std::unique_ptr<BackendSession>> session(std::optional<int> device) const;

    std::vector<IoInfo> inputs_, outputs_;
    std::shared_ptr<const Wiring> wiring_;
};

} // namespace lathe
