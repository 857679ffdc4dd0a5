#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <vector>

#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe::openvino {

/// Writes the model as OpenVINO's intermediate representation: `xml`, and the weights beside it with the ending .bin,
/// both as they are (floats stay as wide as they are). Errors: unsupported (an operator that OpenVINO lacks), io.
Result<void> write_ir(const Model& model, const std::filesystem::path& xml);

/// A model of that form (or of any other that OpenVINO reads), from wherever it is, to run on the CPU in float32. Only
/// its inputs and outputs can be seen.
class IrModel {
public:
    /// `xml`, with its weights beside. Errors: not_found, unsupported (OpenVINO cannot read it).
    static Result<IrModel> load(const std::filesystem::path& xml);

    /// Inputs and outputs with types and sizes, in the model's order, as a graph without nodes has them.
    const Model& interface() const { return interface_; }
    /// The outputs of one run. `inputs`: one for each of the interface's, in their order. Errors: what OpenVINO tells.
    Result<std::vector<HostTensor>> run(const std::vector<const HostTensor*>& inputs, std::size_t threads) const;

private:
    IrModel() = default;
    Model interface_;
    std::filesystem::path file_;
    std::shared_ptr<void> model_; ///< ov::Model
};

} // namespace lathe::openvino
