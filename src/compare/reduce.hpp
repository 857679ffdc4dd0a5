#pragma once

#include <cstddef>
#include <filesystem>
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
    std::size_t trials = 0; ///< pairs of graphs that were run
};

/// Cuts both ONNX models down to what makes `target`, a value of both that is past tolerance, still be past it.
/// Both graphs are cut at values of one name, which are fed with what the first model computed there. Bisection finds
/// the latest place in the first model's order before which all such values can be given; then, as in delta debugging
/// (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002), groups of the values that are
/// left, halving down to single ones, are given as well wherever the difference stays. The result is minimal in that
/// giving any one more value makes it vanish.
/// Errors: invalid_argument (an engine), verification_failed (the difference vanishes when the graphs up to `target`
/// run alone), cancelled; what running gives.
Result<Reduced> reduce(const Comparand& a, const Comparand& b, const Comparison& comparison, const std::string& target,
                       const CompareOptions& options, Progress& progress);

/// Writes b to `output`, a beside it as NAME.reference.onnx and the inputs as NAME.npz. Returns the files, in this
/// order.
Result<std::vector<std::filesystem::path>> save_reduced(const Reduced& reduced, const std::filesystem::path& output);

} // namespace lathe
