#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/api/backend.hpp"
#include "graph/graph.hpp"
#include "support/progress.hpp"

namespace lathe {

/// One value of a network, an entry for every batch of samples.
using Batches = std::vector<HostTensor>;

/// A value given to a model, by the name of its input. The memory stays the giver's and is only read.
struct Given {
    std::string name;
    std::vector<TensorView> batches;

    Given(std::string name_, std::span<const HostTensor> values);
    /// One batch of float32.
    Given(std::string name_, Shape shape, std::span<const float> values);
};

/// Memory of batches no longer needed, kept for the next ones: fresh pages cost more than what is written into them, on
/// a virtual machine over a second a gigabyte.
using SpareMemory = std::vector<std::vector<std::byte>>;

/// A model without declared inputs, compiled on the default backend for what it will be given.
class CompiledPart {
public:
    struct Input {
        std::string name;
        DataType type = DataType::float32;
        ShapeRange shapes;
        std::string sizes = "n"; ///< what its sizes that vary are called: inputs that share the name share the sizes
    };
    /// Errors: what compiling gives.
    static Result<CompiledPart> compile(Model model, const std::vector<Input>& inputs, std::size_t threads,
                                        Precision precision = Precision::float32);
    /// `values`: in the order of the inputs; only read.
    Result<void> run(const std::vector<TensorView>& values);
    const std::vector<IoInfo>& outputs() const { return compiled_->outputs(); }
    /// Has the next runs write an output of known shape there.
    Result<void> set_output(std::size_t i, std::span<std::byte> memory) { return session_->set_output(i, memory); }
    /// Of the last run, until the next.
    Result<TensorView> output(std::size_t i) const { return session_->output(i); }

private:
    std::unique_ptr<CompiledModel> compiled_;
    std::unique_ptr<BackendSession> session_;
};

struct RunOptions {
    std::size_t threads = 0;
    Precision precision = Precision::float32;
    SpareMemory* spare = nullptr;       ///< the outputs lie in memory taken from here where it has enough
    Progress& progress = no_progress(); ///< asked after every batch whether to stop
};

/// Runs a model without declared inputs on the default backend, once a batch; the inputs are declared as what is given.
/// Returns the model's outputs, in their order. All of `given` have the same number of batches, at least one.
/// Errors: invalid_argument (nothing given), cancelled, what compiling and running give.
Result<std::vector<Batches>> run_batches(Model model, const std::vector<Given>& given, const RunOptions& options);

} // namespace lathe
