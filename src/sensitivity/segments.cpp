#include "sensitivity/segments.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "graph/subgraphs.hpp"
#include "quantize/edges.hpp"
#include "quantize/ops.hpp"

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

/// What crosses a position of the node list.
struct Crossing {
    std::size_t values = 0;
    double bytes = 0;
    bool possible = true; ///< all of them have a fixed shape and a plain type
    auto cost() const { return std::tuple(!possible, values, bytes); }
};

/// Where between two layers to cut, and what that costs.
struct Gap {
    std::size_t position = 0;
    Crossing crossing;
};

class Cutter {
public:
    Cutter(const Model& model, const std::vector<double>& macs, double share)
        : graph_(model.graph), index_(model.graph), macs_(macs) {
        for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
            if (is_heavy(*graph_.nodes[i]) && !is_constant_node(i)) layers_.push_back(i);
            total_ += macs_.at(i);
        }
        limit_ = share * total_;
    }

    std::vector<Segment> cut() {
        follow_values();
        find_gaps();
        if (layers_.size() > 1) split(0, layers_.size());
        return build();
    }

private:
    bool is_constant_node(std::size_t i) const {
        const Node& node = *graph_.nodes[i];
        return !node.outputs.empty() && index_.is_constant(node.outputs[0]);
    }

    /// From where to where each value is needed.
    void follow_values() {
        const std::size_t count = graph_.nodes.size();
        for (const ValueInfo& input : graph_.inputs) {
            if (graph_.initializer(input.name) == nullptr) produced_[input.name] = 0;
        }
        for (std::size_t i = 0; i < count; ++i) {
            for (const std::string& name : reads_of(*graph_.nodes[i])) {
                if (produced_.contains(name)) last_read_[name] = i;
            }
            for (const std::string& output : graph_.nodes[i]->outputs) {
                if (!output.empty() && !index_.is_constant(output)) produced_[output] = i + 1;
            }
        }
    }

    /// The cheapest position between every two layers that follow each other. Of equals the last: what follows a layer
    /// point by point stays with it.
    void find_gaps() {
        std::vector<Crossing> crossings(graph_.nodes.size() + 1);
        for (const auto& [name, last] : last_read_) {
            const auto info = graph_.info(name);
            const Shape shape = info ? info->shape().value_or(Shape{-1}) : Shape{-1};
            const bool plain = info && info->opaque_type.empty() && bit_width(info->type) >= 8;
            const std::int64_t elements = plain ? element_count(shape) : -1;
            for (std::size_t at = produced_.at(name); at <= last; ++at) {
                ++crossings[at].values;
                if (elements < 0) {
                    crossings[at].possible = false;
                } else {
                    crossings[at].bytes +=
                        static_cast<double>(elements) * static_cast<double>(bit_width(info->type)) / 8;
                }
            }
        }
        for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
            Gap best{layers_[i] + 1, crossings[layers_[i] + 1]};
            for (std::size_t at = layers_[i] + 2; at <= layers_[i + 1]; ++at) {
                if (crossings[at].cost() <= best.crossing.cost()) best = {at, crossings[at]};
            }
            gaps_.push_back(best);
        }
    }

    double cost(std::size_t first, std::size_t last) const {
        double sum = 0;
        for (std::size_t i = first; i < last; ++i)
            sum += macs_[layers_[i]];
        return sum;
    }

    /// Cuts layers [first, last) further.
    void split(std::size_t first, std::size_t last) {
        if (last - first < 2 || cost(first, last) <= limit_) return;
        std::size_t least = std::numeric_limits<std::size_t>::max();
        for (std::size_t gap = first; gap + 1 < last; ++gap) {
            if (gaps_[gap].crossing.possible) least = std::min(least, gaps_[gap].crossing.values);
        }
        std::vector<std::size_t> chosen; // cut in front of these layers
        std::size_t begin = first;
        std::size_t middle = first;
        double balance = std::numeric_limits<double>::infinity();
        for (std::size_t gap = first; gap + 1 < last; ++gap) {
            if (!gaps_[gap].crossing.possible || gaps_[gap].crossing.values != least) continue;
            const double before = cost(first, gap + 1);
            const double after = cost(gap + 1, last);
            if (std::abs(before - after) < balance) {
                balance = std::abs(before - after);
                middle = gap + 1;
            }
            if (cost(begin, gap + 1) >= limit_ / 2 && after >= limit_ / 2) {
                chosen.push_back(gap + 1);
                begin = gap + 1;
            }
        }
        if (chosen.empty() && middle != first) chosen.push_back(middle);
        if (chosen.empty()) return;
        chosen.push_back(last);
        begin = first;
        for (const std::size_t end : chosen) {
            if (end != last) cuts_.insert(gaps_[end - 1].position);
            split(begin, end);
            begin = end;
        }
    }

    std::vector<Segment> build() const {
        std::vector<std::size_t> ends(cuts_.begin(), cuts_.end());
        ends.push_back(graph_.nodes.size());
        std::vector<Segment> segments;
        std::size_t begin = 0;
        for (const std::size_t end : ends) {
            Segment segment = segment_of(begin, end);
            begin = end;
            if (!segment.outputs.empty()) segments.push_back(std::move(segment));
        }
        return segments;
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
        for (const std::size_t layer : layers_) {
            if (layer >= begin && layer < end) segment.layers.push_back(layer);
        }
        return segment;
    }

    const Graph& graph_;
    EdgeIndex index_;
    const std::vector<double>& macs_;
    std::vector<std::size_t> layers_;
    double total_ = 0;
    double limit_ = 0;
    std::unordered_map<std::string, std::size_t> produced_;  ///< position behind the producer
    std::unordered_map<std::string, std::size_t> last_read_; ///< position of the last reader
    std::vector<Gap> gaps_;
    std::set<std::size_t> cuts_;
};

} // namespace

std::vector<Segment> cut_into_segments(const Model& model, const std::vector<double>& macs, double share) {
    return Cutter(model, macs, share).cut();
}

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
    const auto describe = [&](const std::string& name) {
        ValueInfo info = graph.info(name).value_or(ValueInfo{});
        info.name = name;
        return info;
    };
    for (const std::string& input : inputs)
        piece.graph.inputs.push_back(describe(input));
    for (const std::string& output : outputs)
        piece.graph.outputs.push_back(describe(output));
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
