#include "backends/openvino/compiled.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>

#include "backends/openvino/batch_independence.hpp"
#include "backends/openvino/batch_trials.hpp"
#include "backends/openvino/branches.hpp"
#include "backends/openvino/long_chains.hpp"
#include "backends/openvino/refusals.hpp"
#include "onnx/onnx.hpp"
#include "onnx/summary.hpp"
#include "support/log.hpp"
#include "support/machine.hpp"
#include "support/memory_limit.hpp"
#include "support/thread_pool.hpp"

namespace lathe::openvino {

namespace {

/// What compile_model works with.
struct Job {
    std::shared_ptr<ov::Model> model;
    CompileOptions options;
    std::size_t threads = 1;
    std::shared_ptr<State> state = std::make_shared<State>();
    std::vector<std::pair<PartSpec, ov::CompiledModel>> compiled; ///< all parts compiled so far, used or not
};

Result<void> check_precision(const Model& model, Precision precision) {
    const Machine machine = this_machine();
    if (precision == Precision::bfloat16 && !machine.multiplies_bfloat16()) {
        return Error{ErrorCode::unsupported, "this processor has no bf16 instructions (avx512_bf16 or amx_bf16)",
                     "--precision bf16", "use fp32 or int8"};
    }
    if (precision == Precision::float16 && !machine.has_flag("avx512_fp16") && !machine.has_flag("amx_fp16")) {
        return Error{ErrorCode::unsupported, "this processor has no fp16 instructions (avx512_fp16 or amx_fp16)",
                     "--precision fp16", "use fp32, bf16 or int8"};
    }
    if (precision == Precision::tensor_float32) {
        return Error{ErrorCode::unsupported, "tf32 is a GPU's way to multiply", "--precision tf32",
                     "use fp32, or --device cuda"};
    }
    if (precision != Precision::int8) return {};
    static constexpr std::array<std::string_view, 6> integer_ops{
        "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"};
    for (const auto& node : model.graph.nodes) {
        for (const auto op : integer_ops) {
            if (node->is(op)) return {};
        }
    }
    return Error{ErrorCode::invalid_argument, "int8 was asked, but the model has no quantised operation",
                 "--precision int8", "quantise it first: lathe quantize --target openvino"};
}

Result<std::size_t> port_of(const std::vector<ov::Output<ov::Node>>& ports, const std::string& name,
                            std::size_t index) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
        if (ports[i].get_names().contains(name)) return i;
    }
    if (index < ports.size() && ports[index].get_names().empty()) return index;
    return Error{ErrorCode::unsupported, "OpenVINO dropped this output of the model", name,
                 "simplify the model first: lathe simplify"};
}

ov::Dimension dimension_of(std::int64_t min, std::int64_t max) {
    return min == max ? ov::Dimension(min) : ov::Dimension(min, max);
}

ov::PartialShape partial_shape(const ShapeRange& range) {
    std::vector<ov::Dimension> dims;
    for (std::size_t i = 0; i < range.min.size(); ++i)
        dims.push_back(dimension_of(range.min[i], range.max[i]));
    return ov::PartialShape(std::move(dims));
}

Result<ShapeRange> range_of(const ValueInfo& input, const CompileOptions& options) {
    const auto given = options.shapes.find(input.name);
    if (given == options.shapes.end()) {
        const auto shape = input.shape();
        const bool is_static =
            shape && std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size >= 0; });
        if (!is_static) {
            return Error{ErrorCode::invalid_argument, "input has sizes that are not fixed and no range was given",
                         input.name, "give one with --shape " + input.name + ":MIN..OPT..MAX"};
        }
        return ShapeRange{*shape, *shape, *shape};
    }
    const ShapeRange& range = given->second;
    if (range.min.size() != range.max.size() || !range.contains(range.opt)) {
        return Error{ErrorCode::invalid_argument, "shape range " + range.describe() + " is not min..opt..max",
                     input.name, "every size needs min <= opt <= max"};
    }
    for (const auto size : range.min) {
        if (size < 1) {
            return Error{ErrorCode::invalid_argument, "shape range " + range.describe() + " has a size below 1",
                         input.name, ""};
        }
    }
    return range;
}

Result<void> describe_io(const Model& model, Job& job) {
    State& state = *job.state;
    const auto inputs = job.model->inputs();
    std::vector<std::string> names;
    for (const auto& input : model.graph.inputs) {
        if (model.graph.initializer(input.name) != nullptr) continue;
        if (element_type(input.type) == ov::element::dynamic) {
            return Error{ErrorCode::unsupported, "OpenVINO takes no input of type " + to_string(input.type), input.name,
                         ""};
        }
        LATHE_TRY(ShapeRange range, range_of(input, job.options));
        state.inputs.push_back({input.name, input.type, std::move(range)});
        names.push_back(input.name);
    }
    LATHE_TRY(state.input_ports, input_ports_of(inputs, names));
    for (const auto& given : job.options.shapes) {
        const std::string& name = given.first;
        const bool known =
            std::any_of(state.inputs.begin(), state.inputs.end(), [&](const IoInfo& io) { return io.name == name; });
        if (known) continue;
        std::string list;
        for (const auto& io : state.inputs)
            list += (list.empty() ? "" : ", ") + io.name;
        return Error{ErrorCode::invalid_argument, "the model has no input named \"" + name + "\"", "--shape",
                     "its inputs: " + list};
    }
    std::map<std::size_t, ov::PartialShape> shapes;
    for (std::size_t i = 0; i < state.inputs.size(); ++i) {
        if (state.input_ports[i] != unread) shapes[state.input_ports[i]] = partial_shape(state.inputs[i].range);
    }
    job.model->reshape(shapes);
    LATHE_CHECK(check_scatters(*job.model));
    const auto outputs = job.model->outputs();
    for (const auto& output : model.graph.outputs) {
        LATHE_TRY(const std::size_t port, port_of(outputs, output.name, state.outputs.size()));
        const auto& partial = outputs[port].get_partial_shape();
        Shape shape;
        if (partial.rank().is_static()) {
            for (const auto& dim : partial)
                shape.push_back(dim.is_static() ? dim.get_length() : -1);
        }
        const DataType type = data_type(outputs[port].get_element_type());
        if (type == DataType::undefined) {
            return Error{ErrorCode::unsupported,
                         "OpenVINO gives this output a type Lathe cannot read: " +
                             outputs[port].get_element_type().get_type_name(),
                         output.name, ""};
        }
        state.outputs.push_back({output.name, type, {shape, shape, shape}});
        state.output_ports.push_back(port);
        const auto* source = outputs[port].get_node()->input_value(0).get_node();
        const auto parameter = std::ranges::find(inputs, source, [](const auto& input) { return input.get_node(); });
        const auto at = std::ranges::find(state.input_ports, static_cast<std::size_t>(parameter - inputs.begin()));
        const bool passed_on = parameter != inputs.end() && at != state.input_ports.end();
        state.passed_on.push_back(passed_on ? static_cast<std::size_t>(at - state.input_ports.begin()) : unread);
    }
    return {};
}

ov::AnyMap properties_of(const Job& job, const PartSpec& spec) {
    return properties(job.options.precision, spec.streams, job.threads, job.options.profiling);
}

Result<ov::CompiledModel> compile_part(Job& job, const PartSpec& spec) {
    for (const auto& [known, compiled] : job.compiled) {
        if (known == spec) return compiled;
    }
    const std::shared_ptr<ov::Model> model = job.model->clone();
    if (!spec.is_dynamic()) {
        std::map<std::size_t, ov::PartialShape> shapes;
        for (std::size_t i = 0; i < spec.shapes.size(); ++i) {
            if (job.state->input_ports[i] == unread) continue;
            shapes[job.state->input_ports[i]] =
                ov::PartialShape(std::vector<ov::Dimension>(spec.shapes[i].begin(), spec.shapes[i].end()));
        }
        model->reshape(shapes);
    }
    const ov::CompiledModel compiled = compile_on_cpu(model, properties_of(job, spec));
    job.compiled.emplace_back(spec, compiled);
    return compiled;
}

/// The common range of axis 0, if nothing else varies and every output has axis 0.
std::optional<ShapeRange> batch_range(const State& state) {
    if (state.inputs.empty()) return std::nullopt;
    const ShapeRange& first = state.inputs[0].range;
    for (const auto& io : state.inputs) {
        if (io.range.min.empty()) return std::nullopt;
        for (std::size_t axis = 1; axis < io.range.min.size(); ++axis) {
            if (io.range.min[axis] != io.range.max[axis]) return std::nullopt;
        }
        if (io.range.min[0] != first.min[0] || io.range.opt[0] != first.opt[0] || io.range.max[0] != first.max[0]) {
            return std::nullopt;
        }
    }
    for (const auto& io : state.outputs) {
        if (io.range.min.empty()) return std::nullopt;
    }
    return ShapeRange{{first.min[0]}, {first.opt[0]}, {first.max[0]}};
}

/// Each form of a network of more nodes takes seconds to compile, and one of tiny nodes gains nothing from pieces.
constexpr std::size_t most_nodes_of_many_forms = 4096;

/// Parts for running in one piece: exact forms of min, opt, max, common batches and those asked for, and a dynamic one
/// where other shapes are allowed. Of very many nodes, the forms of opt and those asked for, and the dynamic one.
std::vector<PartSpec> whole_parts(const State& state, const std::vector<PartSpec>& asked, bool few) {
    std::vector<PartSpec> parts;
    bool dynamic = false;
    std::vector<std::int64_t> common;
    if (const auto batches = batch_range(state); batches && !few) {
        for (const std::int64_t batch : {4, 16}) {
            if (batch >= batches->min[0] && batch <= batches->max[0]) common.push_back(batch);
        }
    }
    for (Shape ShapeRange::*which : {&ShapeRange::opt, &ShapeRange::min, &ShapeRange::max}) {
        PartSpec spec;
        for (const auto& io : state.inputs) {
            spec.shapes.push_back(io.range.*which);
            dynamic = dynamic || !io.range.is_static();
        }
        const bool known = std::find(parts.begin(), parts.end(), spec) != parts.end();
        if (!known && (!few || parts.empty())) parts.push_back(std::move(spec));
    }
    std::vector<PartSpec> further = asked;
    for (const std::int64_t batch : common)
        further.push_back({with_batch(parts.front().shapes, batch), 1});
    for (PartSpec& spec : further) {
        if (std::find(parts.begin(), parts.end(), spec) == parts.end()) parts.push_back(std::move(spec));
    }
    // A dynamic form costs 2 to 25 % (measured, most for a batch of one), and where every request has another shape 60
    // % of MiniLM in INT8: it serves only what no static form does.
    if (dynamic) parts.push_back({});
    return parts;
}

/// Further profiles are shapes to have exact forms of.
Result<std::vector<PartSpec>> exact_parts(const Job& job) {
    std::vector<PartSpec> parts;
    for (const auto& profile : job.options.more_profiles) {
        PartSpec spec;
        for (const IoInfo& io : job.state->inputs) {
            const auto found = profile.find(io.name);
            const ShapeRange& range = found == profile.end() ? io.range : found->second;
            if (!range.is_static()) {
                return Error{ErrorCode::invalid_argument,
                             "a further range on the CPU, " + range.describe() + ", is not one shape", io.name,
                             "the first MIN..OPT..MAX covers all requests; give one more SHAPE for every input, to be "
                             "compiled exactly"};
            }
            if (!io.range.contains(range.opt)) {
                return Error{ErrorCode::invalid_argument,
                             "shape " + range.describe() + " is outside the first range, " + io.range.describe(),
                             io.name,
                             "the first MIN..OPT..MAX covers all requests, those with a shape of their own too"};
            }
            spec.shapes.push_back(range.opt);
        }
        parts.push_back(std::move(spec));
    }
    return parts;
}

/// Fails (throws or false) if the model cannot be cut: a static batch size is built into a Reshape, say.
bool outputs_follow_batch(const ov::CompiledModel& compiled, std::int64_t batch) {
    const auto& outputs = compiled.outputs();
    return std::all_of(outputs.begin(), outputs.end(), [&](const auto& port) {
        const auto& shape = port.get_partial_shape();
        return shape.is_static() && shape.size() > 0 && shape[0].get_length() == batch;
    });
}

Result<std::unique_ptr<BackendSession>> trial_session(Job& job, PlanKind kind, const std::vector<PartSpec>& specs) {
    auto state = std::make_shared<State>();
    state->inputs = job.state->inputs;
    state->outputs = job.state->outputs;
    state->input_ports = job.state->input_ports;
    state->output_ports = job.state->output_ports;
    state->passed_on = job.state->passed_on;
    state->kind = kind;
    state->one_thread = job.state->one_thread;
    for (const auto& spec : specs) {
        LATHE_TRY(ov::CompiledModel compiled, compile_part(job, spec));
        if (kind == PlanKind::split && !outputs_follow_batch(compiled, spec.batch())) {
            return Error{ErrorCode::unsupported, "outputs do not follow the batch", "", ""};
        }
        state->parts.push_back(std::make_unique<Part>(spec, compiled, properties_of(job, spec)));
    }
    return make_session_for(std::move(state));
}

std::vector<HostTensor> trial_inputs(const State& state, std::int64_t batch) {
    std::vector<HostTensor> tensors;
    std::uint32_t random = 12345;
    for (const auto& io : state.inputs) {
        Shape shape = io.range.opt;
        shape[0] = batch;
        tensors.push_back(trial_input(io.name, io.type, std::move(shape), random));
    }
    return tensors;
}

/// Least time of a run of each session, interleaved; the least, since other load only ever adds time.
Result<std::vector<double>> time_sessions(std::vector<std::unique_ptr<BackendSession>>& sessions,
                                          std::vector<HostTensor>& inputs) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> least(sessions.size(), std::numeric_limits<double>::infinity());
    const auto start = Clock::now();
    constexpr int rounds_at_least = 4;
    constexpr int rounds_at_most = 40;
    constexpr std::chrono::milliseconds enough{1200};
    constexpr std::chrono::seconds long_enough{6}; // of runs so long, which differ little, one round after the first
    for (int round = 0; round < rounds_at_most; ++round) {
        const auto spent = Clock::now() - start;
        if (round >= rounds_at_least && spent > enough) break;
        if (round >= 2 && spent > long_enough) break;
        for (std::size_t s = 0; s < sessions.size(); ++s) {
            for (std::size_t i = 0; i < inputs.size(); ++i)
                LATHE_CHECK(sessions[s]->set_input(i, inputs[i].view()));
            const auto before = Clock::now();
            LATHE_CHECK(sessions[s]->run());
            const double seconds = std::chrono::duration<double>(Clock::now() - before).count();
            if (round > 0) least[s] = std::min(least[s], seconds);
        }
    }
    return least;
}

} // namespace

bool times_batches(std::int64_t macs, TuneEffort effort) {
    constexpr std::int64_t most = 32'000'000'000; // one run of a trial: about 5 s on two cores of a server
    constexpr std::int64_t most_when_fast = 5'000'000'000;
    return macs <= (effort == TuneEffort::fast ? most_when_fast : most);
}

namespace {

/// The parts of a split plan if that is at least as fast as running whole, else none.
Result<std::vector<PartSpec>> choose_split(Job& job, const Model& model) {
    const auto batches = batch_range(*job.state);
    const BatchPlan wish = job.options.batch_plan;
    if (!batches || batches->max[0] < 2 || job.options.profiling || wish == BatchPlan::whole)
        return std::vector<PartSpec>{};
    if (wish == BatchPlan::measured && model.graph.nodes.size() > most_nodes_of_many_forms) {
        log(LogLevel::debug, "batches run whole: the model has " + std::to_string(model.graph.nodes.size()) + " nodes");
        return std::vector<PartSpec>{};
    }
    if (wish == BatchPlan::measured) {
        const std::int64_t macs = summarize(model).macs;
        if (!times_batches(macs, job.options.tune)) {
            log(LogLevel::debug, "batches run whole: a sample takes " + std::to_string(macs / 1'000'000'000) +
                                     " GMACs, too many to time batches cut into pieces");
            return std::vector<PartSpec>{};
        }
    }
    const BatchIndependence independence = batch_independence(model);
    if (!independence.independent) {
        log(LogLevel::debug, "batches run whole: " + independence.reason);
        return std::vector<PartSpec>{};
    }
    std::vector<Shape> shapes;
    for (const auto& io : job.state->inputs)
        shapes.push_back(io.range.opt);
    const auto threads = static_cast<std::int64_t>(job.threads);
    // Timed at the largest batch up to four samples a thread, at which pieces of 2 and of 4 compete.
    const std::int64_t batch = std::clamp(4 * threads, batches->min[0], batches->max[0]);
    if (batch < 2 * threads) return std::vector<PartSpec>{};
    std::vector<std::vector<std::int64_t>> ladders{{2}};
    if (batch >= 4 * threads) ladders.push_back({4, 2});
    std::vector<std::unique_ptr<BackendSession>> sessions;
    LATHE_TRY(auto whole, trial_session(job, PlanKind::whole, {{with_batch(shapes, batch), 1}}));
    sessions.push_back(std::move(whole));
    for (const auto& ladder : ladders) {
        // A model that cannot take another batch size runs whole.
        auto session = guarded("", "", [&] {
            return trial_session(job, PlanKind::split, split_parts(shapes, ladder, job.threads, batch, batch));
        });
        if (!session) return std::vector<PartSpec>{};
        sessions.push_back(std::move(session).value());
    }
    std::vector<HostTensor> inputs = trial_inputs(*job.state, batch);
    LATHE_TRY(const std::vector<double> least, time_sessions(sessions, inputs));
    const auto best = static_cast<std::size_t>(std::min_element(least.begin() + 1, least.end()) - least.begin());
    std::string report = "batch " + std::to_string(batch) + ": whole " + std::to_string(least[0] * 1e3) + " ms";
    for (std::size_t i = 1; i < least.size(); ++i) {
        report +=
            ", pieces of " + std::to_string(ladders[i - 1].front()) + " " + std::to_string(least[i] * 1e3) + " ms";
    }
    log(LogLevel::debug, report);
    if (least[best] > least[0] && wish == BatchPlan::measured) return std::vector<PartSpec>{};
    return split_parts(shapes, ladders[best - 1], job.threads, batches->min[0], batches->max[0]);
}

/// The precision that was asked must be there: a model named int8 that runs in fp32 helps nobody.
Result<void> audit_precision(const ov::CompiledModel& compiled, Precision precision) {
    if (precision == Precision::float32) return {};
    LATHE_TRY(const std::vector<LayerInfo> layers, layers_of(compiled));
    const bool present = std::any_of(layers.begin(), layers.end(),
                                     [&](const LayerInfo& layer) { return layer.precision == to_string(precision); });
    if (present) return {};
    return Error{ErrorCode::unsupported, "OpenVINO compiled no layer to " + to_string(precision),
                 "--precision " + to_string(precision),
                 "see `lathe inspect --layers` of an fp32 engine; use another precision"};
}

} // namespace

std::vector<PartSpec> State::specs() const {
    std::vector<PartSpec> list;
    for (const auto& part : parts)
        list.push_back(part->spec());
    return list;
}

Result<std::unique_ptr<CompiledModel>> compile_model(const Model& original, const CompileOptions& options) {
    LATHE_CHECK(check_precision(original, options.precision));
    // Where a thread of its pool cannot be started, OpenVINO now and then waits for it for ever. With so little it
    // never compiled any model.
    constexpr std::uint64_t least = std::uint64_t{768} << 20;
    if (address_space_left() < least) {
        return Error{ErrorCode::out_of_memory, "OpenVINO cannot compile the model: out of memory, or of threads",
                     original.graph.name, "use a smaller batch or model, or raise the limits (ulimit -v, ulimit -u)"};
    }
    if (options.workspace_bytes > 0) {
        log(LogLevel::info, "OpenVINO has no workspace limit; the given one is ignored");
    }
    if (!options.timing_cache.empty()) {
        log(LogLevel::warning, "OpenVINO times no kernels while building: the timing cache " +
                                   options.timing_cache.string() + " is neither read nor written");
    }
    Job job;
    job.options = options;
    job.threads = options.threads > 0 ? options.threads : available_cores();
    job.state->profiling = options.profiling;
    job.state->one_thread = std::min(job.threads, available_cores()) == 1;
    Model sized = original; // shares the tensors
    fix_sizes(sized, options.shapes);
    LATHE_TRY(job.model, to_openvino(sized));
    auto compiled = guarded(
        "OpenVINO cannot compile the model", original.graph.name, [&]() -> Result<std::unique_ptr<CompiledModel>> {
            LATHE_CHECK(describe_io(original, job));
            Model model = original;
            // Shapes only sharpen the analysis; a model they cannot be inferred for is run whole.
            if (auto inferred = infer_shapes(model); !inferred) log(LogLevel::debug, inferred.error().describe());
            LATHE_TRY(const std::vector<PartSpec> exact, exact_parts(job));
            LATHE_TRY(std::vector<PartSpec> specs, choose_split(job, model));
            job.state->kind = specs.empty() ? PlanKind::whole : PlanKind::split;
            if (specs.empty()) {
                specs = whole_parts(*job.state, exact, model.graph.nodes.size() > most_nodes_of_many_forms);
            } else if (!exact.empty()) {
                log(LogLevel::warning, "batches are cut into pieces that run side by side: the further shapes "
                                       "get no forms of their own");
            }
            for (const auto& spec : specs) {
                LATHE_TRY(ov::CompiledModel compiled, compile_part(job, spec));
                if (job.state->parts.empty())
                    LATHE_CHECK(told_unless_asked(audit_precision(compiled, options.precision), options));
                job.state->parts.push_back(std::make_unique<Part>(spec, std::move(compiled), properties_of(job, spec)));
            }
            return std::unique_ptr<CompiledModel>(std::make_unique<OpenVinoModel>(job.state));
        });
    if (!compiled) return in_our_words(std::move(compiled).error(), original);
    return compiled;
}

Result<std::unique_ptr<BackendSession>> OpenVinoModel::make_session() const { return make_session_for(state_); }

Result<std::vector<LayerInfo>> OpenVinoModel::layers() const {
    LATHE_TRY(const ov::CompiledModel compiled, state_->parts.front()->get());
    return layers_of(compiled);
}

Result<ByteChain> OpenVinoModel::save() const { return save_blob(*state_); }

} // namespace lathe::openvino
