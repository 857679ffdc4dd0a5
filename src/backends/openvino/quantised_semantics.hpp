#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"

namespace lathe::openvino {

/// The nodes that take one's place, in order; empty where it stays.
using Nodes = std::vector<Node>;

Node made(std::string type, std::vector<std::string> inputs, std::string output);
/// A constant of a row of integers; gives its name.
std::string add_integers(Graph& graph, const std::string& stem, const std::vector<std::int64_t>& numbers);
/// The node that gives a value; nullptr for what none gives. Looks through all: `Uses` where it is asked often.
const Node* producer(const Graph& graph, const std::string& value);

/// The part of write_onnx_semantics about QuantizeLinear and DequantizeLinear: what is looked up of a graph before it
/// changes. Keys are names within that graph, whose nodes must live as long.
class QuantisedSemantics {
public:
    /// The nodes that quantise and dequantise, by what they give.
    using QuantisedBy = std::unordered_map<std::string_view, const Node*>;
    /// A Concat that is quantised behind, with a Relu between or not, and then scaled or shifted.
    struct Requantised {
        const Node *relu = nullptr, *quantise = nullptr;
    };
    /// By the names of what the Concat and the DequantizeLinear give; the latter's is the Concat's. And where a MatMul
    /// reads it that joins rows, the QuantizeLinear by the Concat's name, and the Concat by what that gives.
    struct RequantisedConcats {
        std::unordered_map<std::string_view, Requantised> concats;
        std::unordered_map<std::string_view, std::string> dequantised;
        std::unordered_map<std::string_view, const Node*> bytes;
        std::unordered_map<std::string_view, std::string> quantised;
        /// By the name of what a Concat of such rows gives that is not quantised behind: what dequantised all of them.
        std::unordered_map<std::string_view, const Node*> rows;
        /// What a Concat of rows in several scales gives.
        std::unordered_set<std::string_view> apart;
    };

    /// Of a DepthToSpace, by the name of what it gives: what dequantises each part of the Concat that it reads, in one
    /// scale and from one zero point.
    using DequantisedParts = std::unordered_map<std::string_view, std::vector<const Node*>>;

    explicit QuantisedSemantics(const Graph& graph);
    Nodes instead_of(Graph& graph, const Node& node) const;
    /// Whether anything of the graph is quantised.
    bool any() const { return !quantised_.empty(); }

private:
    QuantisedBy quantised_;
    std::unordered_set<std::string_view> as_unsigned_;
    RequantisedConcats scaled_;
    DequantisedParts moved_;
};

} // namespace lathe::openvino
