#include "sensitivity/segments.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/subgraphs.hpp"
#include "quantize/edges.hpp"

namespace lathe {

namespace {

/// Values that a node reads, those its subgraphs capture included.
std::vector<std::string> reads_of(const Node& node) {
    std::vector<std::string> names;
    for (const std::string& input : node.inputs) {
        if (!input.empty()) names.push_back(input);
    }
    for (const std::string& captured : captured_names(node))
        names.push_back(captured);
    return names;
}

/// Bytes of weights that a byte crossing a cut is reckoned like: it is written, brought into another layout, read and
/// brought back, once for each layer in front of the cut and each batch.
constexpr double byte_crossing = 4;

/// What crosses a position of the node list.
struct Crossing {
    double bytes = 0;
    bool possible = true; ///< all of it has a fixed shape and a plain type
};

class Divider {
public:
    Divider(const Model& model, const std::vector<std::size_t>& layers)
        : graph_(model.graph), index_(model.graph), layers_(layers) {}

    Division divide() {
        follow_values();
        measure_positions();
        const std::vector<std::size_t> cuts = choose_cuts();
        Division division;
        for (const std::size_t cut : cuts)
            division.rests.push_back(segment_of(cut, graph_.nodes.size()));
        for (const std::size_t layer : layers_) {
            const auto next = std::upper_bound(cuts.begin(), cuts.end(), layer);
            Division::Layer own{layer, segment_of(start_of(layer), next == cuts.end() ? graph_.nodes.size() : *next),
                                std::nullopt};
            if (next != cuts.end()) own.rest = static_cast<std::size_t>(next - cuts.begin());
            division.layers.push_back(std::move(own));
        }
        return division;
    }

private:
    /// From where to where each value is needed.
    void follow_values() {
        for (const ValueInfo& input : graph_.inputs) {
            if (graph_.initializer(input.name) == nullptr) produced_[input.name] = 0;
        }
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            for (const std::string& name : reads_of(*graph_.nodes[i])) {
                if (produced_.contains(name)) last_read_[name] = i;
            }
            for (const std::string& output : graph_.nodes[i]->outputs) {
                if (!output.empty() && !index_.is_constant(output)) produced_[output] = i + 1;
            }
        }
    }

    void measure_positions() {
        crossings_.resize(graph_.nodes.size() + 1);
        for (const auto& [name, last] : last_read_) {
            const auto info = graph_.info(name);
            const Shape shape = info ? info->shape().value_or(Shape{-1}) : Shape{-1};
            const bool plain = info && info->opaque_type.empty() && bit_width(info->type) >= 8;
            const std::int64_t elements = plain ? element_count(shape) : -1;
            for (std::size_t at = produced_.at(name); at <= last; ++at) {
                if (elements < 0) {
                    crossings_[at].possible = false;
                } else {
                    crossings_[at].bytes +=
                        static_cast<double>(elements) * static_cast<double>(bit_width(info->type)) / 8;
                }
            }
        }
        // What a graph gets needs no shape inference.
        crossings_.front().possible = true;
        weights_.push_back(0);
        for (const auto& node : graph_.nodes) {
            double bytes = 0;
            for (const std::string& name : reads_of(*node)) {
                if (const Tensor* constant = graph_.initializer(name))
                    bytes += static_cast<double>(constant->bytes().size());
            }
            weights_.push_back(weights_.back() + bytes);
        }
    }

    /// The last position up to the layer at which its segment can begin.
    std::size_t start_of(std::size_t layer) const {
        while (!crossings_[layer].possible)
            --layer;
        return layer;
    }

    /// Between every two layers that follow each other the position at which least crosses. Of equals the last: what
    /// follows a layer point by point stays with it.
    std::vector<std::size_t> candidates() const {
        std::vector<std::size_t> positions;
        for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
            std::optional<std::size_t> best;
            for (std::size_t at = layers_[i] + 1; at <= layers_[i + 1]; ++at) {
                if (!crossings_[at].possible) continue;
                if (!best || crossings_[at].bytes <= crossings_[*best].bytes) best = at;
            }
            if (best) positions.push_back(*best);
        }
        return positions;
    }

    /// Those of least weights and crossing bytes together, by dynamic programming over the last cut.
    std::vector<std::size_t> choose_cuts() const {
        std::vector<std::size_t> positions = candidates();
        const std::size_t end = graph_.nodes.size();
        positions.push_back(end);
        std::vector<double> starts{0}; // weights in front of the layers' own segments, summed over layers
        for (const std::size_t layer : layers_)
            starts.push_back(starts.back() + weights_[start_of(layer)]);
        const auto layers_before = [&](std::size_t position) {
            return static_cast<std::size_t>(std::lower_bound(layers_.begin(), layers_.end(), position) -
                                            layers_.begin());
        };
        const auto cost = [&](std::size_t from, std::size_t to) { // layers in [from, to), a cut at `to`
            const auto first = layers_before(from);
            const auto last = layers_before(to);
            const double each = weights_[to] + (to == end ? 0 : byte_crossing * crossings_[to].bytes);
            const double own = static_cast<double>(last - first) * each - (starts[last] - starts[first]);
            return own + weights_[end] - weights_[to];
        };
        std::vector<double> least(positions.size(), std::numeric_limits<double>::infinity());
        std::vector<std::optional<std::size_t>> before(positions.size());
        for (std::size_t to = 0; to < positions.size(); ++to) {
            least[to] = cost(0, positions[to]);
            for (std::size_t from = 0; from < to; ++from) {
                const double sum = least[from] + cost(positions[from], positions[to]);
                if (sum >= least[to]) continue;
                least[to] = sum;
                before[to] = from;
            }
        }
        std::vector<std::size_t> cuts;
        for (std::optional<std::size_t> at = before.back(); at; at = before[*at])
            cuts.push_back(positions[*at]);
        std::reverse(cuts.begin(), cuts.end());
        return cuts;
    }

    Segment segment_of(std::size_t begin, std::size_t end) const {
        Segment segment;
        std::unordered_set<std::string> seen;
        for (std::size_t i = begin; i < end; ++i) {
            for (const std::string& name : reads_of(*graph_.nodes[i])) {
                const auto produced = produced_.find(name);
                if (produced == produced_.end() || produced->second > begin || !seen.insert(name).second) continue;
                segment.inputs.push_back(name);
            }
            for (const std::string& output : graph_.nodes[i]->outputs) {
                if (!produced_.contains(output)) continue;
                const auto last = last_read_.find(output);
                const bool read_behind = last != last_read_.end() && last->second >= end;
                if (read_behind || graph_.is_output(output)) segment.outputs.push_back(output);
            }
        }
        return segment;
    }

    const Graph& graph_;
    EdgeIndex index_;
    const std::vector<std::size_t>& layers_;
    std::unordered_map<std::string, std::size_t> produced_;  ///< position behind the producer
    std::unordered_map<std::string, std::size_t> last_read_; ///< position of the last reader
    std::vector<Crossing> crossings_;                        ///< by position
    std::vector<double> weights_;                            ///< bytes, in front of a position
};

} // namespace

Division divide(const Model& model, const std::vector<std::size_t>& layers) { return Divider(model, layers).divide(); }

Model extract(const Model& model, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    const Graph& graph = model.graph;
    std::unordered_map<std::string, std::size_t> producers;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const std::string& output : graph.nodes[i]->outputs)
            producers[output] = i;
    }
    const std::unordered_set<std::string> given(inputs.begin(), inputs.end());
    std::set<std::size_t> nodes;
    std::unordered_set<std::string> seen;
    std::vector<std::string> stack = outputs;
    while (!stack.empty()) {
        const std::string name = std::move(stack.back());
        stack.pop_back();
        if (given.contains(name) || !seen.insert(name).second) continue;
        const auto producer = producers.find(name);
        if (producer == producers.end() || !nodes.insert(producer->second).second) continue;
        for (std::string& read : reads_of(*graph.nodes[producer->second]))
            stack.push_back(std::move(read));
    }
    Model piece;
    piece.ir_version = model.ir_version;
    piece.opsets = model.opsets;
    piece.opaque_functions = model.opaque_functions;
    piece.graph.name = "piece";
    for (const std::string& input : inputs)
        piece.graph.inputs.push_back(graph.info_or_name(input));
    for (const std::string& output : outputs)
        piece.graph.outputs.push_back(graph.info_or_name(output));
    for (const std::size_t i : nodes) {
        piece.graph.add(*graph.nodes[i]);
        for (const std::string& name : reads_of(*graph.nodes[i])) {
            if (given.contains(name)) continue;
            if (const Tensor* constant = graph.initializer(name))
                piece.graph.initializers.insert_or_assign(name, *constant);
        }
        for (const std::string& output : graph.nodes[i]->outputs) {
            const auto info = graph.value_infos.find(output);
            if (info != graph.value_infos.end() && !piece.graph.is_output(output))
                piece.graph.value_infos.insert(*info);
        }
    }
    return piece;
}

} // namespace lathe
