#include "compare/reduce.hpp"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "compare/part.hpp"
#include "correct/run.hpp"
#include "data/npy.hpp"
#include "onnx/onnx.hpp"

namespace lathe {
namespace {

using Names = std::unordered_set<std::string>;

/// How to build parts of an engine's graph; nothing for an ONNX model.
std::optional<BuildOptions> build_options(const Comparand& subject, std::size_t threads) {
    if (!subject.engine) return std::nullopt;
    BuildOptions options;
    options.device = subject.engine->info().device;
    options.precision = subject.engine->info().precision;
    options.threads = threads != 0 ? threads : subject.engine->info().threads;
    options.allow_fallback = true; // a small part may have no operation that the precision is for
    return options;
}

class Reducer {
public:
    Reducer(const Comparand& a, const Comparand& b, const std::map<std::string, HostTensor>& values, std::string target,
            const CompareOptions& options, Progress& progress)
        : a_(a), b_(b), build_a_(build_options(a, options.threads)), build_b_(build_options(b, options.threads)),
          values_(values), target_(std::move(target)), options_(options), progress_(progress) {}

    /// `places`: values of both models before the target, in the first one's order.
    Result<Reduced> run(const std::vector<std::string>& places) {
        LATHE_TRY(const bool whole, fails({}));
        if (!whole && failure_) return *failure_;
        if (!whole) {
            return Error{ErrorCode::verification_failed,
                         "the difference vanishes when the graphs up to this value run alone", target_,
                         "it comes of how the whole graph is optimised; compare with --outputs-only"};
        }
        LATHE_CHECK(bisect(places));
        LATHE_CHECK(thin_out(places));
        return finish();
    }

private:
    struct Pair {
        Part a, b;
        std::vector<std::string> inputs; ///< of either
    };

    Result<Pair> cut(const Names& stops) const {
        Pair pair;
        LATHE_TRY(pair.a, cut_part(a_.model, target_, stops));
        LATHE_TRY(pair.b, cut_part(b_.model, target_, stops));
        std::ranges::set_union(pair.a.inputs, pair.b.inputs, std::back_inserter(pair.inputs));
        return pair;
    }

    Result<HostTensor> run_part(const Part& part, const Comparand& subject,
                                const std::optional<BuildOptions>& build) const {
        for (const std::string& name : part.inputs) {
            if (!values_.contains(name)) return Error{ErrorCode::not_found, "the value was not seen", name, ""};
        }
        if (subject.interpreter) return interpret(part, subject.interpreter);
        return build ? run_engine(part, *build) : run_graph(part);
    }

    Result<HostTensor> interpret(Part part, const ModelRunner& interpreter) const {
        std::vector<HostTensor> inputs;
        for (const std::string& name : part.inputs) {
            inputs.push_back(values_.at(name));
            inputs.back().name = name;
            declare_input(part.model, inputs.back());
        }
        LATHE_TRY(std::vector<HostTensor> outputs, interpreter(part.model, inputs, options_.threads));
        HostTensor result = std::move(outputs.front());
        result.name = target_;
        return result;
    }

    Result<HostTensor> run_graph(const Part& part) const {
        std::vector<Given> given;
        for (const std::string& name : part.inputs)
            given.emplace_back(name, std::span(&values_.at(name), 1));
        LATHE_TRY(std::vector<Batches> results, run_batches(part.model, given, {.threads = options_.threads}));
        HostTensor result = std::move(results.front().front());
        result.name = target_;
        return result;
    }

    Result<HostTensor> run_engine(Part part, const BuildOptions& build) const {
        declare_inputs(part);
        LATHE_TRY(const Engine engine, Engine::build(part.model, build));
        std::vector<HostTensor> inputs;
        for (const IoInfo& input : engine.info().inputs) {
            inputs.push_back(values_.at(input.name));
            inputs.back().name = input.name;
        }
        std::vector<const HostTensor*> given;
        for (const HostTensor& input : inputs)
            given.push_back(&input);
        LATHE_TRY(std::vector<HostTensor> outputs, outputs_of(engine, given));
        HostTensor result = std::move(outputs.front());
        result.name = target_;
        return result;
    }

    /// Do the graphs between `stops` and the target still differ? Graphs that do not run tell nothing, so: no.
    Result<bool> fails(const Names& stops) {
        LATHE_CHECK(progress_.check());
        ++trials_;
        progress_.advance(1);
        failure_.reset();
        const auto pair = cut(stops);
        if (!pair) {
            failure_ = pair.error();
            return false;
        }
        const auto of_a = run_part(pair->a, a_, build_a_);
        const auto of_b = of_a ? run_part(pair->b, b_, build_b_) : of_a;
        if (!of_a || !of_b) {
            failure_ = of_a ? of_b.error() : of_a.error();
            if (failure_->code == ErrorCode::cancelled) return *failure_;
            return false;
        }
        const TensorDifference difference = difference_of(*of_a, *of_b, options_.tolerance);
        if (!difference.past) return false;
        difference_ = difference;
        stops_ = stops;
        shape_a_ = of_a->shape;
        shape_b_ = of_b->shape;
        return true;
    }

    /// The most of `places`, from the first on, that can be given.
    Result<void> bisect(const std::vector<std::string>& places) {
        const auto first = [&](std::size_t count) {
            return Names(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
        };
        LATHE_TRY(const bool all, fails(first(places.size())));
        if (all) return {};
        std::size_t failing = 0;
        std::size_t passing = places.size();
        while (passing - failing > 1) {
            const std::size_t middle = failing + (passing - failing) / 2;
            LATHE_TRY(const bool still, fails(first(middle)));
            (still ? failing : passing) = middle;
        }
        return {};
    }

    /// Gives what else can be given, in groups.
    Result<void> thin_out(const std::vector<std::string>& places) {
        std::vector<std::string> rest = inside(places);
        for (std::size_t group = std::max<std::size_t>(1, rest.size() / 2); !rest.empty();) {
            bool gained = false;
            for (std::size_t at = 0; at < rest.size(); at += group) {
                Names more = stops_;
                for (std::size_t i = at; i < std::min(at + group, rest.size()); ++i)
                    more.insert(rest[i]);
                LATHE_TRY(const bool still, fails(more));
                gained = gained || still;
            }
            rest = inside(places);
            if (group > 1) {
                group = std::max<std::size_t>(1, std::min(group / 2, rest.size()));
            } else if (!gained) {
                break;
            }
        }
        return {};
    }

    /// The places that the graphs still compute.
    std::vector<std::string> inside(const std::vector<std::string>& places) const {
        Names computed;
        if (const auto pair = cut(stops_)) {
            for (const Part* part : {&pair->a, &pair->b}) {
                for (const auto& node : part->model.graph.nodes)
                    computed.insert(node->outputs.begin(), node->outputs.end());
            }
        }
        std::vector<std::string> left;
        std::ranges::copy_if(places, std::back_inserter(left), [&](const std::string& name) {
            return computed.contains(name) && !stops_.contains(name);
        });
        return left;
    }

    Result<Reduced> finish() {
        LATHE_TRY(Pair pair, cut(stops_));
        Reduced reduced;
        reduced.difference = difference_;
        reduced.trials = trials_;
        for (const std::string& name : pair.inputs) {
            HostTensor value = values_.at(name);
            value.name = name;
            reduced.inputs.push_back(std::move(value));
        }
        declare(pair.a, shape_a_);
        declare(pair.b, shape_b_);
        reduced.nodes_a = pair.a.model.graph.nodes.size();
        reduced.nodes_b = pair.b.model.graph.nodes.size();
        reduced.a = std::move(pair.a.model);
        reduced.b = std::move(pair.b.model);
        reduced.build_a = build_a_;
        reduced.build_b = build_b_;
        return reduced;
    }

    static std::vector<Dimension> sizes(const Shape& shape) {
        std::vector<Dimension> dims;
        std::ranges::transform(shape, std::back_inserter(dims), Dimension::of);
        return dims;
    }

    void declare_inputs(Part& part) const {
        for (const std::string& name : part.inputs) {
            HostTensor value = values_.at(name);
            value.name = name;
            declare_input(part.model, value);
        }
    }

    /// ONNX demands types and shapes of what goes in and out.
    void declare(Part& part, const Shape& result) const {
        declare_inputs(part);
        part.model.graph.outputs.front().dims = sizes(result);
    }

    const Comparand& a_;
    const Comparand& b_;
    std::optional<BuildOptions> build_a_, build_b_;
    const std::map<std::string, HostTensor>& values_;
    std::string target_;
    const CompareOptions& options_;
    Progress& progress_;
    Names stops_;                 ///< of the smallest pair that failed so far
    TensorDifference difference_; ///< of it
    Shape shape_a_, shape_b_;     ///< of its results
    std::size_t trials_ = 0;
    std::optional<Error> failure_; ///< of the last trial, where it did not run
};

/// What is known of the values inside: of engines, by their graphs.
Result<Comparison> look_inside(const Comparand& a, const Comparand& b, const Comparison& outside,
                               const CompareOptions& options) {
    std::vector<HostTensor> inputs;
    for (const Comparand* subject : {&a, &b}) {
        for (const std::string& name : needed_inputs(subject->model)) {
            const auto value = outside.values_a.find(name);
            if (value == outside.values_a.end()) continue;
            inputs.push_back(value->second);
            inputs.back().name = name;
        }
    }
    const Comparand graph_a{a.file, a.model, std::nullopt, {}, a.interpreter};
    const Comparand graph_b{b.file, b.model, std::nullopt, {}, b.interpreter};
    CompareOptions all = options;
    all.outputs_only = false;
    return compare(graph_a, graph_b, inputs, all);
}

} // namespace

Result<Reduced> reduce(const Comparand& a, const Comparand& b, const Comparison& outside, const std::string& target,
                       const CompareOptions& options, Progress& progress) {
    for (const Comparand* subject : {&a, &b}) {
        if (!subject->runner) continue;
        return Error{ErrorCode::invalid_argument, "only ONNX models and engines can be cut", subject->file.string(),
                     "compare the ONNX model that it was made from"};
    }
    std::optional<Comparison> inside;
    if (a.engine || b.engine) {
        LATHE_TRY(inside, look_inside(a, b, outside, options));
    }
    const Comparison& comparison = inside ? *inside : outside;
    std::vector<std::string> places;
    for (const ComparedTensor& tensor : comparison.tensors) {
        if (tensor.difference.tensor == target) break;
        // What is an output under another name in the second model is no place to cut both.
        if (tensor.difference.problem.empty() && !tensor.op_b.empty()) places.push_back(tensor.difference.tensor);
    }
    const auto computes = [&](const std::string& name) {
        return std::ranges::any_of(b.model.graph.nodes, [&](const auto& node) {
            return std::ranges::find(node->outputs, name) != node->outputs.end();
        });
    };
    std::erase_if(places, [&](const std::string& name) { return !computes(name); });
    progress.begin("reducing", 0);
    auto reduced = Reducer(a, b, comparison.values_a, target, options, progress).run(places);
    progress.end();
    return reduced;
}

Result<std::vector<std::filesystem::path>> save_reduced(const Reduced& reduced, const std::filesystem::path& output) {
    const std::filesystem::path stem = std::filesystem::path(output).replace_extension();
    const std::vector<std::filesystem::path> files{output, stem.string() + ".reference.onnx", stem.string() + ".npz"};
    std::vector<TensorView> views;
    std::vector<HostTensor> inputs = reduced.inputs;
    for (HostTensor& input : inputs)
        views.push_back(input.view());
    LATHE_CHECK(save_onnx(reduced.b, files[0]));
    LATHE_CHECK(save_onnx(reduced.a, files[1]));
    LATHE_CHECK(write_npz(files[2], views));
    return files;
}

} // namespace lathe
