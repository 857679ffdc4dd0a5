#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "correct/run.hpp"
#include "graph/graph.hpp"
#include "quantize/edges.hpp"

namespace lathe {

/// Runs a model on kept samples piece by piece, in graph order, and stops where it is told. What a stop's node reads
/// can then be looked at, and the constants of what has not run yet can be changed (`set_constant`): that is how a
/// layer is corrected on the inputs that the layers before it, already corrected, give it.
///
/// Memory: every value that a later node still reads, for all samples, at its largest until the walk ends; where
/// `spare` is given, until that goes. Constants are folded by the backend.
class Walk {
public:
    /// `inputs`: by the name of a model input. `model`: its graph must be in topological order.
    /// `spare`: memory that several walks use, one after another or side by side; nullptr: this one's own.
    /// Errors: not_found (an input has no values).
    static Result<Walk> start(Model model, std::map<std::string, Batches> inputs, std::size_t threads,
                              Progress& progress = no_progress(), std::shared_ptr<SpareMemory> spare = nullptr);
    Walk(Walk&&) = default;
    Walk& operator=(Walk&&) = default;
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;
    ~Walk();

    /// Runs everything in front of the node that computes `output`; a no-op if that has been reached.
    /// Errors: not_found (no such node), what compiling and running give.
    /// `also`: values on the way that can be looked at until the next stop, though nothing behind this one reads them:
    /// a piece that is run costs some tens of milliseconds to compile, so that where nothing will be changed, few long
    /// ones are better than many.
    Result<void> stop_before(const std::string& output, const std::set<std::string>& also = {});

    /// A value computed so far that a later node reads or that the last stop asked for, or nullptr.
    const Batches* value(const std::string& name) const;
    const Model& model() const { return *model_; }
    /// Of nodes that have not run.
    void set_constant(Tensor tensor);
    /// Of the node that computes `output` and has not run.
    void set_input(const std::string& output, std::size_t input, std::string value);
    Model take() && { return std::move(*model_); }

private:
    Walk(Model model, std::size_t threads, Progress& progress, std::shared_ptr<SpareMemory> spare);

    void keep_memory(Batches& batches);
    void drop_before(std::size_t end, const std::set<std::string>& also);
    Model piece(std::size_t end, const std::set<std::string>& also, std::vector<std::string>& reads) const;

    bool is_constant(const std::string& name) const;

    std::unique_ptr<Model> model_; // `index_` refers to its graph
    std::unique_ptr<EdgeIndex> index_;
    std::size_t threads_;
    Progress* progress_;   ///< asked after every batch whether to stop; must outlive this
    std::size_t next_ = 0; ///< the first node that has not run
    std::unordered_map<std::string, std::size_t> last_use_; ///< of each value: the last node that reads it
    std::map<std::string, Batches> values_;
    std::shared_ptr<SpareMemory> spare_; ///< nullptr: moved from
};

} // namespace lathe
