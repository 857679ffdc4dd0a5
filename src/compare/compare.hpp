#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/difference.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "runtime/engine.hpp"
#include "support/json.hpp"

namespace lathe {

/// Computes a model that declares its inputs, once: all its outputs, in their order. `inputs`: a value for each of the
/// model's that no initializer gives, by name.
using ModelRunner = std::function<Result<std::vector<HostTensor>>(
    const Model& model, const std::vector<HostTensor>& inputs, std::size_t threads)>;

/// A model or an engine to compare.
struct Comparand {
    std::filesystem::path file;
    Model model;                  ///< of an engine: what it was built from, for its inputs
    std::optional<Engine> engine; ///< if it is one: only its outputs can be seen
    /// If something else runs it, and shows its outputs alone: takes the model's inputs and gives its outputs, in their
    /// order. `model` then has no nodes.
    std::function<Result<std::vector<HostTensor>>(const std::vector<const HostTensor*>& inputs, std::size_t threads)>
        runner{};
    /// If set, computes the model, and the parts that `reduce` cuts of it, in place of the default backend.
    ModelRunner interpreter{};
};

/// Errors: as load_onnx and Engine::load.
Result<Comparand> load_comparand(const std::filesystem::path& file);

/// Inputs that a caller must give: those that no initializer gives already.
std::vector<std::string> needed_inputs(const Model& model);

/// Declares an input of the type and sizes of `value`, in place of the one that there may be of its name.
void declare_input(Model& model, const HostTensor& value);

/// The outputs of one run on copies of its own; `inputs` by their names, none null.
Result<std::vector<HostTensor>> outputs_of(const Engine& engine, const std::vector<const HostTensor*>& inputs);

struct CompareOptions {
    Tolerance tolerance;
    bool outputs_only = false;
    std::size_t threads = 0;
};

/// A compared tensor with the operations that make it.
struct ComparedTensor {
    TensorDifference difference;
    std::string node_a, op_a, node_b, op_b; ///< by the graph, of an engine by the one inside it
    bool output = false;                    ///< of the first model
};

struct Comparison {
    std::vector<ComparedTensor> tensors; ///< in the first model's topological order; outputs are among them
    std::size_t only_a = 0, only_b = 0;  ///< float values that have no namesake in the other
    /// The first model's values by name, its inputs too: what `reduce` cuts with.
    std::map<std::string, HostTensor> values_a;
    /// The outputs of both that are paired, in the first model's order and under its names.
    std::vector<HostTensor> outputs_a, outputs_b;

    /// The first past tolerance; nullptr if there is none.
    const ComparedTensor* first_past() const;
};

/// Inputs for both: random ones (seeded) of the first model, in the sizes of `shapes`, else of an engine's favourite,
/// else small ones. Errors: invalid_argument for a shape of an input that is not there.
Result<std::vector<HostTensor>> inputs_for(const Comparand& a, const Comparand& b,
                                           const std::map<std::string, Shape>& shapes, std::uint64_t seed);

/// Runs both on the same inputs, of which each takes those it has. ONNX models run on the default backend in float32,
/// or by their interpreter, and every float32 value of one name is compared; of an engine the outputs alone, on its own
/// device. Outputs are paired by name, by position where the names of all differ. What a runner runs shows its outputs
/// alone too. Errors: mismatch (inputs or outputs that do not fit each other), what running gives.
Result<Comparison> compare(const Comparand& a, const Comparand& b, const std::vector<HostTensor>& inputs,
                           const CompareOptions& options);

Json to_json(const ComparedTensor& tensor);

} // namespace lathe
