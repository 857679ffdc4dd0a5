#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/compare.hpp"
#include "graph/graph.hpp"
#include "lathe/result.hpp"
#include "support/progress.hpp"

namespace lathe {

/// A small pair of graphs that still differ by more than the tolerance.
struct Reduced {
    Model a, b;                     ///< each with its inputs declared and one output, `difference.tensor`
    std::vector<HostTensor> inputs; ///< what the two read, as the first model computed it
    TensorDifference difference;    ///< of the small graphs on these inputs
    std::size_t nodes_a = 0, nodes_b = 0;
    /// Of the first and the second, where they were engines: what to build the small graph with.
    std::optional<BuildOptions> build_a, build_b;
    std::size_t trials = 0; ///< pairs of graphs that were run
};

/// Cuts both models down to what makes `target`, a value of both that is past tolerance, still be past it.
/// Both graphs are cut at values of one name, which are fed with what the first model computed there. Bisection finds
/// the latest place in the first model's order before which all such values can be given; then, as in delta debugging
/// (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), groups of the values that are
/// left, halving down to single ones, are given as well wherever the difference stays. The result is minimal in that
/// giving any one more value makes it vanish.
/// Of an engine the graph inside is cut, and each trial builds the part for the engine's device in its precision. What
/// is fed are then the values that the first one's graph has in float32, since an engine does not show its own; places
/// are the float values of one name in both graphs.
/// Errors: invalid_argument (a comparand with a runner), verification_failed (the difference vanishes when the graphs
/// up to `target` run alone), cancelled; what building and running the whole graphs gives. A part that cannot be built
/// or run counts as one that does not differ.
Result<Reduced> reduce(const Comparand& a, const Comparand& b, const Comparison& comparison, const std::string& target,
                       const CompareOptions& options, Progress& progress);

/// Writes b to `output`, a beside it as NAME.reference.onnx and the inputs as NAME.npz. Returns the files, in this
/// order.
Result<std::vector<std::filesystem::path>> save_reduced(const Reduced& reduced, const std::filesystem::path& output);

} // namespace lathe
