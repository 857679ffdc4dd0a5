#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "onnx/proto.hpp"

namespace lathe::proto {

namespace {

constexpr std::uint64_t most_nodes = 1'000'000;
/// Whoever follows the calls uses the stack for each.
constexpr int deepest_call = 200;

/// Counts the nodes that a call stands for, each function once.
class Expansion {
public:
    explicit Expansion(const onnx::ModelProto& message) {
        for (const auto& function : message.functions())
            functions_.emplace(key(function.domain(), function.name()), Function{&function, 0, State::unknown});
    }

    /// At most `most_nodes` + 1, which stands for more.
    template <class Nodes>
    std::uint64_t count(const Nodes& nodes, int depth = 0) {
        std::uint64_t total = 0;
        for (const onnx::NodeProto& node : nodes) {
            const auto called = functions_.find(key(node.domain(), node.op_type()));
            total += called == functions_.end() ? 1 : count_function(called->second, depth);
            for (const onnx::AttributeProto& attribute : node.attribute()) {
                if (attribute.has_g()) total += count(attribute.g().node(), depth + 1);
                for (const onnx::GraphProto& graph : attribute.graphs())
                    total += count(graph.node(), depth + 1);
            }
            if (total > most_nodes) return most_nodes + 1;
        }
        return total;
    }

private:
    enum class State { unknown, counting, known };
    struct Function {
        const onnx::FunctionProto* proto;
        std::uint64_t nodes;
        State state;
    };

    static std::string key(const std::string& domain, const std::string& name) {
        return (domain == "ai.onnx" ? "" : domain) + "\n" + name;
    }

    std::uint64_t count_function(Function& function, int depth) {
        if (function.state == State::counting)
            return 0; // calls in a circle: shape inference and the checker refuse them
        if (depth > deepest_call) return most_nodes + 1;
        if (function.state == State::unknown) {
            function.state = State::counting;
            function.nodes = std::min(count(function.proto->node(), depth + 1), most_nodes + 1);
            function.state = State::known;
        }
        return function.nodes;
    }

    std::unordered_map<std::string, Function> functions_;
};

} // namespace

Result<void> check_function_calls(const onnx::ModelProto& message) {
    if (message.functions().empty()) return {};
    if (Expansion(message).count(message.graph().node()) <= most_nodes) return {};
    return Error{ErrorCode::parse_error,
                 "the functions that the model defines itself stand for more than " + std::to_string(most_nodes) +
                     " nodes, or call each other more than " + std::to_string(deepest_call) + " deep",
                 "", "export the model without functions of its own"};
}

} // namespace lathe::proto
