#include "passes/simplify.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "graph/subgraphs.hpp"
#include "passes/passes.hpp"
#include "passes/rewrite.hpp"
#include "passes/verification.hpp"
#include "support/clock.hpp"

namespace lathe {
namespace {

std::size_t count_nodes(const Graph& graph) {
    std::size_t count = graph.nodes.size();
    for (const auto& node : graph.nodes) {
        for_each_subgraph(*node, [&](const Graph& inner) { count += count_nodes(inner); });
    }
    return count;
}

/// Old exporters reuse names of the outer graph inside bodies. With all names different, a rewrite may make a body
/// read another outer value without meeting a namesake.
void make_names_differ(Graph& graph, const std::unordered_set<std::string>& outer) {
    auto visible = defined_names(graph);
    visible.insert(outer.begin(), outer.end());
    for (const auto& node : graph.nodes) {
        for_each_subgraph(*node, [&](Graph& inner) {
            inner.share_names(graph);
            for (const std::string& name : defined_names(inner)) {
                if (!visible.contains(name)) continue;
                const std::string fresh = inner.unique_name(name);
                // replace_uses first: it follows nested bodies by the name that is still defined here.
                inner.replace_uses(name, fresh);
                rename_value(inner, name, fresh);
            }
            make_names_differ(inner, visible);
        });
    }
}

/// What takes a node's place has its name, for layers are told by it; of several the first keeps it. ONNX Runtime
/// refuses two nodes of one name.
void tell_nodes_apart(Graph& graph) {
    std::unordered_set<std::string> taken;
    for (const auto& node : graph.nodes) {
        const std::string given = node->name;
        for (int i = 1; !given.empty() && !taken.insert(node->name).second; ++i)
            node->name = given + "/" + node->op_type + (i == 1 ? "" : std::to_string(i));
        for_each_subgraph(*node, tell_nodes_apart);
    }
}

/// The model after one application of a pass; for finding the pass that broke it.
struct Step {
    std::string pass;
    Model model;
};

class Simplifier {
public:
    Simplifier(const Model& original, const SimplifyOptions& options, const Runner& run,
               const ShapeInference& infer_shapes)
        : original_(original), options_(options), run_(run), infer_shapes_(infer_shapes),
          progress_(options.progress == nullptr ? no_progress() : *options.progress) {}

    Result<std::pair<Model, SimplifyReport>> run() {
        LATHE_CHECK(choose_passes());
        LATHE_CHECK(verify(original_));
        Model model = original_;
        make_names_differ(model.graph, {});
        report_.before_nodes = count_nodes(model.graph);
        report_.before_initializers = model.graph.initializers.size();
        progress_.begin("simplify", 0);
        LATHE_CHECK(to_fixed_point(model));
        progress_.end();
        // Shape inference may have filled in dimensions; a model's interface is not ours to change.
        model.graph.outputs = original_.graph.outputs;
        tell_nodes_apart(model.graph);
        report_.after_nodes = count_nodes(model.graph);
        report_.after_initializers = model.graph.initializers.size();
        if (!steps_.empty()) LATHE_CHECK(verify_function(model));
        return std::pair{std::move(model), std::move(report_)};
    }

private:
    Result<void> choose_passes() {
        const std::span<const Pass> all = options_.passes.empty() ? std::span(all_passes()) : options_.passes;
        for (const std::string& name : options_.disabled) {
            if (std::none_of(all.begin(), all.end(), [&](const Pass& pass) { return pass.name == name; })) {
                return Error{ErrorCode::invalid_argument, "there is no pass called " + name, "",
                             "`lathe simplify --list-passes` names them"};
            }
        }
        for (const Pass& pass : all) {
            const auto& off = options_.disabled;
            if (std::find(off.begin(), off.end(), pass.name) != off.end()) continue;
            if (options_.for_gpus && !pass.pays_on_gpus) continue;
            passes_.push_back(&pass);
            report_.passes.push_back({pass.name, 0});
        }
        return {};
    }

    Result<void> infer(Model& model) {
        if (!infer_shapes_) return {};
        if (auto inferred = infer_shapes_(model); !inferred) {
            // Without known shapes fewer rewrites fire; none becomes wrong.
            model.graph.value_infos.clear();
            const std::string warning =
                "shape inference failed, so fewer rewrites apply: " + inferred.error().describe();
            if (std::find(report_.warnings.begin(), report_.warnings.end(), warning) == report_.warnings.end()) {
                report_.warnings.push_back(warning);
            }
        }
        return {};
    }

    Result<void> to_fixed_point(Model& model) {
        for (report_.rounds = 1; report_.rounds <= options_.max_rounds; ++report_.rounds) {
            LATHE_CHECK(infer(model));
            bool changed = false;
            for (std::size_t i = 0; i < passes_.size(); ++i) {
                LATHE_CHECK(progress_.check());
                LATHE_TRY(const bool applied, apply(*passes_[i], report_.passes[i], model));
                changed = changed || applied;
                progress_.advance();
            }
            if (!changed) return {};
        }
        report_.warnings.push_back("still changing after " + std::to_string(options_.max_rounds) + " rounds");
        return {};
    }

    Result<bool> apply(const Pass& pass, PassCount& count, Model& model) {
        PassContext context{model.opset(), options_.fold_limit_bytes, 0};
        auto applied = apply_pass(pass, model.graph, context);
        if (!applied) return std::move(applied).error().in("pass " + pass.name);
        if (!*applied) return false;
        remove_dead(model.graph);
        count.changes += context.rewrites;
        if (auto sound = verify(model); !sound) {
            Error error = std::move(sound).error().in("pass " + pass.name);
            error.code = ErrorCode::internal;
            error.hint = "please report this; --disable " + pass.name + " avoids it";
            return error;
        }
        steps_.push_back({pass.name, model});
        if (options_.dump) LATHE_CHECK(options_.dump(steps_.size(), pass.name, model));
        return true;
    }

    Result<void> verify_function(const Model& model) {
        if (!run_) {
            return Error{ErrorCode::invalid_argument, "nothing to verify the simplified model with", "",
                         "use a build with a CPU backend"};
        }
        const std::size_t sets = std::max<std::size_t>(1, options_.samples);
        progress_.begin("verify", 0);
        if (options_.time_limit_s <= 0 || sets == 1) {
            LATHE_CHECK(verify_sets(model, 0, sets));
        } else {
            const auto start = std::chrono::steady_clock::now();
            LATHE_CHECK(verify_sets(model, 0, 1));
            const double each = seconds_since(start);
            if (each * static_cast<double>(sets) <= options_.time_limit_s) LATHE_CHECK(verify_sets(model, 1, sets));
        }
        progress_.end();
        return {};
    }

    /// Of the sets of random inputs those from `first` up to `end`.
    Result<void> verify_sets(const Model& model, std::size_t first, std::size_t end) {
        const std::size_t sets = end - first;
        std::vector<TensorSet> inputs(sets);
        for (std::size_t set = 0; set < sets; ++set) {
            LATHE_TRY(inputs[set], random_inputs(original_, options_.seed, first + set));
        }
        auto expected = run_(original_, inputs);
        if (!expected) expected = run_without_branches(inputs, std::move(expected).error());
        if (!expected) return std::move(expected).error();
        LATHE_CHECK(progress_.check());
        LATHE_TRY(const std::vector<Difference> differences, compare(model, inputs, *expected));
        for (std::size_t set = 0; set < sets; ++set) {
            const Difference& found = differences[set];
            if (found.nothing_finite) {
                warn_once("output " + found.output + " has no finite number on random inputs, so it was not verified");
            }
            report_.max_error = std::max(report_.max_error, found.relative);
            if (found.relative > tolerance_) {
                return blame(std::span(inputs).subspan(set, 1), std::span(*expected).subspan(set, 1), found);
            }
            ++report_.samples;
        }
        return {};
    }

    /// Where the original cannot be run, as one with branches that only fit what is never asked: the first model that
    /// can be after such branches went. That step moves nodes and changes none; all after it are held to what it
    /// computes.
    Result<std::vector<TensorSet>> run_without_branches(std::span<const TensorSet> inputs, Error why) {
        if (why.code == ErrorCode::unsupported) {
            for (std::size_t i = 0; i < steps_.size(); ++i) {
                if (steps_[i].pass != "inline-branches") continue;
                auto expected = run_(steps_[i].model, inputs);
                if (!expected) continue;
                verified_from_ = i + 1;
                warn_once("the original cannot be run here, so only what was done after its branches were chosen was "
                          "verified: " +
                          why.describe());
                return expected;
            }
        }
        return std::move(why).in("running the original model to verify against");
    }

    void warn_once(std::string warning) {
        auto& all = report_.warnings;
        if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(std::move(warning));
    }

    /// Outputs of `model` against the expected ones, for each set. A model that does not run differs infinitely.
    Result<std::vector<Difference>> compare(const Model& model, std::span<const TensorSet> inputs,
                                            std::span<const TensorSet> expected) const {
        auto actual = run_(model, inputs);
        std::vector<Difference> differences;
        if (actual) {
            for (std::size_t set = 0; set < inputs.size(); ++set)
                differences.push_back(compare_outputs(expected[set], (*actual)[set]));
            return differences;
        }
        if (actual.error().code == ErrorCode::cancelled) return std::move(actual).error();
        differences.assign(inputs.size(), {1e300, "", "it does not run: " + actual.error().describe(), false});
        return differences;
    }

    /// Bisects over the recorded steps for the first whose result differs.
    Error blame(std::span<const TensorSet> inputs, std::span<const TensorSet> expected, const Difference& last) const {
        std::size_t good = verified_from_; // steps_[good - 1] is known to be right; 0 is the original
        std::size_t bad = steps_.size();
        Difference found = last;
        while (bad - good > 1) {
            const std::size_t middle = good + (bad - good) / 2;
            auto compared = compare(steps_[middle - 1].model, inputs, expected);
            if (!compared) return std::move(compared).error();
            if (compared->front().relative > tolerance_) {
                bad = middle;
                found = compared->front();
            } else {
                good = middle;
            }
        }
        const std::string& pass = steps_[bad - 1].pass;
        std::string what = found.problem;
        if (what.empty()) {
            char number[32];
            std::snprintf(number, sizeof(number), "%.3g", found.relative);
            what = "relative difference " + std::string(number);
        }
        return {ErrorCode::verification_failed, "the simplified model does not compute what the original does",
                "pass " + pass + (found.output.empty() ? "" : ", output " + found.output) + ": " + what,
                "nothing was written; --disable " + pass + " leaves that pass out, and please report this"};
    }

    const Model& original_;
    const SimplifyOptions& options_;
    const double tolerance_ = options_.tolerance * (rounds_values(original_.graph) ? 20 : 1);
    const Runner& run_;
    const ShapeInference& infer_shapes_;
    Progress& progress_;
    std::vector<const Pass*> passes_;
    std::vector<Step> steps_;
    std::size_t verified_from_ = 0; ///< steps that made what was run in place of the original
    SimplifyReport report_;
};

} // namespace

Result<SimplifyReport> simplify(Model& model, const SimplifyOptions& options, const Runner& run,
                                const ShapeInference& infer_shapes) {
    LATHE_TRY(auto done, Simplifier(model, options, run, infer_shapes).run());
    model = std::move(done.first);
    return std::move(done.second);
}

} // namespace lathe
