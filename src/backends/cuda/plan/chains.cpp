#include "backends/cuda/plan/chains.hpp"

#include <algorithm>
#include <array>

namespace lathe::cuda {
namespace {

/// Computed, read and written in one type, int8 or f16.
bool of_one_type(const Plan& plan, const FusedOp& op, const Conv& conv) {
    const ElementType type = op.compute;
    const auto has = [&](ValueId id) {
        const Value& value = plan.values[id];
        return value.type == type && value.layout == Layout::nhwc && value.dims[1] == value.channel_stride;
    };
    return (type == ElementType::s8 || type == ElementType::f16) && has(op.inputs[0]) && has(op.outputs[0]) &&
           plan.weights->weights[conv.weight].type == type &&
           (conv.epilogue.residual == none || has(conv.epilogue.residual));
}

/// The convolution, if it is 1x1 with an epilogue that only scales, adds and bounds.
const Conv* plain(const Plan& plan, const FusedOp& op) {
    const auto* conv = std::get_if<Conv>(&op.detail);
    if (conv == nullptr || conv->groups != 1 || conv->reads_nchw || conv->pooled) return nullptr;
    const Window& w = conv->window;
    const Epilogue& e = conv->epilogue;
    const bool simple = e.act == Activation::none || e.act == Activation::relu || e.act == Activation::clip;
    if (w.kernel != std::array<std::int64_t, 2>{1, 1} || w.pads != std::array<std::int64_t, 4>{} || !simple ||
        e.residual_last || e.output_scale_inverse != 1 || !of_one_type(plan, op, *conv))
        return nullptr;
    return conv;
}

/// A 1x1 convolution of an image of one pixel, in the type it is computed in and with nothing added.
bool of_one_pixel(const Plan& plan, const FusedOp& op) {
    const auto* conv = std::get_if<Conv>(&op.detail);
    if (conv == nullptr || conv->groups != 1 || conv->reads_nchw || conv->pooled || op.inputs.size() != 1) return false;
    const Value &x = plan.values[op.inputs[0]], &y = plan.values[op.outputs[0]];
    const auto alone = [&](const Value& v) {
        return v.type == op.compute && v.layout == Layout::nhwc && v.dims.size() == 4 && v.dims[2] == 1 &&
               v.dims[3] == 1 && !v.part;
    };
    return is_real(op.compute) && alone(x) && alone(y) && conv->window.kernel == std::array<std::int64_t, 2>{1, 1} &&
           conv->window.pads == std::array<std::int64_t, 4>{} && conv->epilogue.residual == none &&
           plan.weights->weights[conv->weight].type == op.compute;
}

bool steps_by_one(const Conv& conv) { return conv.window.stride == std::array<std::int64_t, 2>{1, 1}; }

class Finder {
public:
    explicit Finder(const Plan& plan) : plan_(plan), readers_(plan.values.size(), 0) {
        for (const FusedOp& op : plan.ops)
            for (const ValueId id : op.inputs)
                ++readers_[id];
        for (const ValueId id : plan.outputs)
            ++readers_[id];
        for (const Value& value : plan.values)
            if (value.alias_of != none) ++readers_[value.alias_of];
    }

    std::vector<ChainSite> sites() const {
        std::vector<ChainSite> found;
        for (std::size_t i = 0; i < plan_.ops.size(); ++i) {
            const Conv* conv = plain(plan_, plan_.ops[i]);
            if (conv == nullptr || conv->epilogue.residual == none) continue;
            const auto before = shortcut(i, *conv), after = behind(i);
            if (before && after) found.push_back({before, i, after});
            if (before) found.push_back({before, i, std::nullopt});
            if (after) found.push_back({std::nullopt, i, after});
        }
        for (std::size_t i = 0; i < plan_.ops.size(); ++i)
            if (auto site = squeeze(i)) found.push_back(std::move(*site));
        std::stable_sort(found.begin(), found.end(),
                         [](const auto& a, const auto& b) { return a.ops().size() > b.ops().size(); });
        return found;
    }

private:
    /// What makes the residual, if that is all it is for.
    std::optional<std::size_t> shortcut(std::size_t adding, const Conv& conv) const {
        const ValueId residual = conv.epilogue.residual;
        if (readers_[residual] != 1 || plan_.ops[adding].inputs[0] == residual) return std::nullopt;
        for (std::size_t i = 0; i < adding; ++i) {
            if (plan_.ops[i].outputs[0] != residual) continue;
            const Conv* found = plain(plan_, plan_.ops[i]);
            if (found == nullptr || found->epilogue.residual != none) return std::nullopt;
            return i;
        }
        return std::nullopt;
    }

    /// The only op that reads the result of op `i`, as its first operand.
    std::optional<std::size_t> only_reader(std::size_t i) const {
        const ValueId result = plan_.ops[i].outputs[0];
        if (readers_[result] != 1) return std::nullopt;
        for (std::size_t next = i + 1; next < plan_.ops.size(); ++next)
            if (!plan_.ops[next].inputs.empty() && plan_.ops[next].inputs[0] == result) return next;
        return std::nullopt;
    }

    /// What begins with the average that op `i` is.
    std::optional<ChainSite> squeeze(std::size_t i) const {
        if (!std::holds_alternative<GlobalPool>(plan_.ops[i].detail)) return std::nullopt;
        const auto first = only_reader(i);
        const auto second = first ? only_reader(*first) : std::nullopt;
        if (!second || !is_squeeze(plan_, plan_.ops[i], plan_.ops[*first], plan_.ops[*second])) return std::nullopt;
        ChainSite site;
        site.adding = *second;
        site.squeeze = {i, *first, *second};
        return site;
    }

    /// The first that reads the sum as it is.
    std::optional<std::size_t> behind(std::size_t adding) const {
        for (std::size_t i = adding + 1; i < plan_.ops.size(); ++i) {
            if (plan_.ops[i].inputs.empty() || plan_.ops[i].inputs[0] != plan_.ops[adding].outputs[0]) continue;
            const Conv* found = plain(plan_, plan_.ops[i]);
            if (found != nullptr && steps_by_one(*found) && found->epilogue.residual == none) return i;
        }
        return std::nullopt;
    }

    const Plan& plan_;
    std::vector<std::size_t> readers_; ///< by value
};

} // namespace

bool is_squeeze(const Plan& plan, const FusedOp& average, const FusedOp& first, const FusedOp& second) {
    const auto* pool = std::get_if<GlobalPool>(&average.detail);
    if (pool == nullptr || !pool->average || average.inputs.size() != 1) return false;
    const Value& x = plan.values[average.inputs[0]];
    return of_one_pixel(plan, first) && of_one_pixel(plan, second) && first.inputs == average.outputs &&
           second.inputs == first.outputs && x.layout == Layout::nhwc && x.dims.size() == 4 && !x.part &&
           x.type == first.compute && second.compute == first.compute;
}

std::vector<std::size_t> ChainSite::ops() const {
    if (!squeeze.empty()) return squeeze;
    std::vector<std::size_t> all;
    if (shortcut) all.push_back(*shortcut);
    all.push_back(adding);
    if (behind) all.push_back(*behind);
    return all;
}

std::vector<ChainSite> chain_sites(const Plan& plan) { return Finder(plan).sites(); }

FusedOp chain_of(const Plan& plan, const ChainSite& site) {
    FusedOp op;
    Chain chain;
    chain.shortcut = site.shortcut.has_value();
    chain.squeeze = !site.squeeze.empty();
    for (const std::size_t index : site.ops()) {
        const FusedOp& part = plan.ops[index];
        op.name += (op.name.empty() ? "" : " + ") + part.name;
        op.nodes.insert(op.nodes.end(), part.nodes.begin(), part.nodes.end());
        op.macs += part.macs;
        op.compute = part.compute;
        for (const ValueId id : part.inputs) {
            const bool inside = std::any_of(chain.parts.begin(), chain.parts.end(),
                                            [&](const FusedOp& before) { return before.outputs[0] == id; });
            if (!inside && std::find(op.inputs.begin(), op.inputs.end(), id) == op.inputs.end())
                op.inputs.push_back(id);
        }
        chain.parts.push_back(part);
    }
    for (std::size_t i = chain.placeless(); i < chain.parts.size(); ++i)
        op.outputs.push_back(chain.parts[i].outputs[0]);
    op.detail = std::move(chain);
    return op;
}

// shortcut   ...            ...     (squeeze and excite: all in the place of the last)
// ...        adding    ->   chain
// adding     ...            ...
// behind
void join_chains(Plan& plan, const std::vector<ChainSite>& sites) {
    std::vector<bool> taken(plan.ops.size(), false);
    std::vector<std::optional<FusedOp>> chains(plan.ops.size()); // in the place of what adds
    for (const ChainSite& site : sites) {
        const auto ops = site.ops();
        if (std::any_of(ops.begin(), ops.end(), [&](std::size_t i) { return taken[i]; })) continue;
        for (const std::size_t i : ops)
            taken[i] = true;
        chains[site.adding] = chain_of(plan, site);
    }
    std::vector<FusedOp> joined;
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        if (chains[i]) joined.push_back(std::move(*chains[i]));
        if (!taken[i]) joined.push_back(std::move(plan.ops[i]));
    }
    plan.ops = std::move(joined);
}

} // namespace lathe::cuda
