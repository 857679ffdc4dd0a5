#include "quantize/last_layers.hpp"

#include <algorithm>

#include "quantize/ops.hpp"

namespace lathe {

std::vector<std::size_t> last_layers(const Graph& graph, const std::unordered_set<std::string>& labels) {
    std::vector<std::size_t> last;
    std::unordered_set<std::string> leads; // values from which one of them can be reached
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        const Node& node = *graph.nodes[i];
        const bool on_the_way =
            std::ranges::any_of(node.outputs, [&](const auto& output) { return leads.contains(output); });
        const bool own = is_heavy(node) && labels.contains(node.label());
        if (own && !on_the_way) last.push_back(i);
        if (own || on_the_way) leads.insert(node.inputs.begin(), node.inputs.end());
    }
    std::ranges::reverse(last);
    return last;
}

} // namespace lathe
