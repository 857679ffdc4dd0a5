#include "autocast/neighbours.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace lathe {

namespace {

bool is_integer(DataType type) {
    return type != DataType::undefined && type != DataType::boolean && type != DataType::string && !is_floating(type);
}

/// Input positions that need every bit, whatever the values.
bool reads_exactly(const Graph& graph, const Node& node, std::size_t input) {
    if (node.is("GridSample") || node.is("RoiAlign")) return input == 1;
    if (node.is("Range")) return true;
    if (!node.is("Cast") || input != 0) return false;
    const auto info = graph.info(node.output(0));
    return info && is_integer(info->type);
}

bool is_angle(const Node& node) { return node.is("Sin") || node.is("Cos") || node.is("Tan"); }

} // namespace

void keep_exact(const Graph& graph, const AutocastOptions& options, const std::map<std::string, TensorFacts>& facts,
                std::vector<CastDecision>& decisions) {
    std::unordered_map<std::size_t, CastDecision*> by_index;
    for (CastDecision& decision : decisions)
        by_index.emplace(decision.index, &decision);
    std::unordered_map<std::string, std::string> exact; // value to what reads it
    // Readers come behind: one walk from the end meets every reader before its producer.
    for (std::size_t i = graph.nodes.size(); i-- > 0;) {
        const auto found = by_index.find(i);
        if (found == by_index.end()) continue;
        CastDecision& decision = *found->second;
        const Node& node = *graph.nodes[i];
        std::string reader;
        for (const std::string& output : node.outputs) {
            if (const auto at = exact.find(output); at != exact.end()) reader = at->second;
        }
        if (is_angle(node)) {
            const auto angle = facts.find(node.input(0));
            if (angle != facts.end() && angle->second.absmax * options.format.unit_roundoff > options.error_limit) {
                reader = node.label();
            }
        }
        const bool through = !reader.empty() && !decision.reduction;
        if (through && decision.is_cast()) {
            decision.reason = CastReason::feeds_exact;
            decision.detail = reader;
        }
        for (std::size_t k = 0; k < node.inputs.size(); ++k) {
            if (!is_float32(graph, node.inputs[k])) continue;
            if (through) {
                exact.emplace(node.inputs[k], reader);
            } else if (reads_exactly(graph, node, k)) {
                exact.emplace(node.inputs[k], node.label());
                if (decision.is_cast()) {
                    decision.reason = CastReason::feeds_exact;
                    decision.detail = "input " + std::to_string(k);
                }
            }
        }
    }
}

namespace {

/// Groups of light cast nodes that read each other's results.
class Islands {
public:
    Islands(const Graph& graph, std::vector<CastDecision>& decisions) : graph_(graph), decisions_(decisions) {
        parent_.resize(decisions.size());
        for (std::size_t i = 0; i < decisions.size(); ++i) {
            parent_[i] = i;
            for (const std::string& output : node(i).outputs)
                producer_.emplace(output, i);
        }
        join();
    }

    void keep() {
        for (std::size_t i = 0; i < decisions_.size(); ++i) {
            if (!light(i)) continue;
            const std::size_t group = find(i);
            if (!touches_float_.contains(group) || touches_heavy_.contains(group)) continue;
            flipped_.push_back(i);
        }
        for (const std::size_t i : flipped_)
            decisions_[i].reason = CastReason::between_floats;
    }

private:
    const Node& node(std::size_t i) const { return *graph_.nodes[decisions_[i].index]; }
    /// Cast, and no product: 16 bits save it memory traffic, not arithmetic.
    bool light(std::size_t i) const {
        const CastDecision& decision = decisions_[i];
        return decision.is_cast() && !(decision.reduction && decision.reduction->product);
    }
    std::size_t find(std::size_t i) {
        while (parent_[i] != i)
            i = parent_[i] = parent_[parent_[i]];
        return i;
    }
    void each_edge(const auto& visit) {
        for (std::size_t reader = 0; reader < decisions_.size(); ++reader) {
            for (const std::string& input : node(reader).inputs) {
                const auto producer = producer_.find(input);
                if (producer != producer_.end() && is_float32(graph_, input)) visit(producer->second, reader);
            }
        }
    }
    void join() {
        each_edge([&](std::size_t a, std::size_t b) {
            if (light(a) && light(b)) parent_[find(a)] = find(b);
        });
        each_edge([&](std::size_t a, std::size_t b) {
            note(a, b);
            note(b, a);
        });
    }
    void note(std::size_t own, std::size_t other) {
        if (!light(own) || light(other)) return;
        (decisions_[other].is_cast() ? touches_heavy_ : touches_float_).insert(find(own));
    }

    const Graph& graph_;
    std::vector<CastDecision>& decisions_;
    std::vector<std::size_t> parent_;
    std::unordered_map<std::string, std::size_t> producer_;
    std::unordered_set<std::size_t> touches_heavy_;
    std::unordered_set<std::size_t> touches_float_;
    std::vector<std::size_t> flipped_;
};

} // namespace

void keep_islands(const Graph& graph, std::vector<CastDecision>& decisions) { Islands(graph, decisions).keep(); }

} // namespace lathe
