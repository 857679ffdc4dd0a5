#include "bench/run.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "bench/bench.hpp"
#include "bench/device_monitor.hpp"
#include "bench/engine_subject.hpp"
#include "bench/noise.hpp"
#include "bench/openvino_peer.hpp"
#include "bench/peer_model.hpp"
#include "bench/probe.hpp"
#include "bench/trtexec_subject.hpp"
#include "bench/worker_subject.hpp"
#include "data/open_dataset.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/machine.hpp"
#include "support/unique_name.hpp"

namespace lathe {

namespace {

constexpr std::int64_t default_batch_sizes[] = {1, 4, 8, 16, 32};

class Bench {
public:
    Bench(const BenchRequest& request, Progress& progress, ScratchFolder scratch)
        : request_(request), progress_(progress), scratch_(std::move(scratch)) {}

    Result<Json> run() {
        LATHE_CHECK(load_engines());
        LATHE_CHECK(load_plans());
        if (request_.raw_inputs.load) {
            LATHE_TRY(raw_inputs_, request_.raw_inputs.load(engines_[0].inputs));
        }
        LATHE_CHECK(choose_batch_sizes());
        LATHE_CHECK(start_peers());
        LATHE_CHECK(probe());
        return measure_all();
    }

private:
    /// Of the budget, by when peers and probes must have begun.
    static constexpr double peers_share = 0.3;
    static constexpr double probes_share = 0.4;
    bool spent(double share) const {
        return request_.budget_s > 0 && seconds_since(start_) > share * request_.budget_s;
    }

    Result<void> load_engines() {
        progress_.begin("load", request_.engines.size() + request_.plans.size() + request_.against.size());
        EngineLoadOptions load;
        load.devices = request_.devices;
        for (const auto& file : request_.engines) {
            LATHE_CHECK(progress_.check());
            LATHE_TRY(Engine engine, Engine::load(file, load));
            SubjectInfo info;
            info.name = unique_name(file.stem().string(), taken_);
            info.kind = SubjectKind::engine;
            info.precision = to_string(engine.info().precision);
            info.device = engine.info().device;
            LATHE_CHECK(describe_file(info, file));
            info.libraries[engine.info().backend] = engine.info().library_version;
            if (engine.info().recompiled) {
                info.notes.push_back("compiled anew on this machine: " + engine.info().recompiled_reason);
            }
            engines_.push_back(engine.info());
            LATHE_CHECK(models_.offer(engine));
            subjects_.push_back(make_engine_subject(std::move(info), std::move(engine)));
            progress_.advance();
        }
        const bool spreads = std::ranges::any_of(subjects_, [](const auto& each) { return each->devices() > 0; });
        if (request_.scaling && !spreads) {
            return Error{ErrorCode::invalid_argument, "none of the engines runs on numbered devices", "--scaling",
                         "leave --scaling out, or name an engine built with --device cuda"};
        }
        return {};
    }

    Result<void> load_plans() {
        TrtexecOptions options;
        options.program = request_.trtexec;
        if (!request_.devices.empty()) options.device = request_.devices.front();
        if (request_.warm_up_ms > 0) options.warm_up_ms = request_.warm_up_ms;
        options.give_inputs = !request_.data.empty() || request_.raw_inputs.load;
        for (const auto& file : request_.plans) {
            LATHE_CHECK(progress_.check());
            SubjectInfo info;
            info.name = unique_name(file.stem().string(), taken_);
            info.kind = SubjectKind::trtexec;
            info.device = "tensorrt";
            LATHE_CHECK(describe_file(info, file));
            LATHE_TRY(TrtexecSubject made, make_trtexec_subject(std::move(info), options, scratch_.path(), progress_));
            if (plan_inputs_.empty()) plan_inputs_ = std::move(made.inputs);
            subjects_.push_back(std::move(made.subject));
            progress_.advance();
        }
        return {};
    }

    /// The model's inputs at a batch size: as the first engine has them, else as trtexec ran the first plan.
    Result<std::vector<InputSpec>> inputs_at(std::int64_t batch) const {
        if (!engines_.empty()) return engine_inputs(engines_[0], batch);
        std::vector<InputSpec> specs = plan_inputs_;
        for (InputSpec& spec : specs) {
            if (!spec.shape.empty()) spec.shape[0] = batch;
        }
        return specs;
    }

    static Result<void> describe_file(SubjectInfo& info, const std::filesystem::path& file) {
        info.file = file;
        std::error_code failed;
        info.file_bytes = std::filesystem::file_size(file, failed);
        if (failed) return Error{ErrorCode::not_found, "no such file", file.string(), ""};
        // OpenVINO's own format keeps its weights beside.
        if (auto weights = file; weights.replace_extension(".bin") != file && file.extension() == ".xml") {
            const auto bytes = std::filesystem::file_size(weights, failed);
            if (!failed) info.file_bytes += bytes;
        }
        LATHE_TRY(info.hash, hash_file(file));
        return {};
    }

    Result<void> choose_batch_sizes() {
        batch_sizes_ = request_.batch_sizes;
        if (!batch_sizes_.empty()) {
            for (const std::int64_t batch : batch_sizes_)
                if (auto specs = inputs_at(batch); !specs) return std::move(specs).error();
            return {};
        }
        if (!raw_inputs_.empty() && !raw_inputs_[0].shape.empty()) {
            batch_sizes_ = {raw_inputs_[0].shape[0]};
            return {};
        }
        if (engines_.empty()) {
            const bool known = !plan_inputs_.empty() && !plan_inputs_[0].shape.empty();
            batch_sizes_ = {known ? std::max<std::int64_t>(1, plan_inputs_[0].shape[0]) : 1};
            return {};
        }
        for (const std::int64_t batch : default_batch_sizes) {
            if (!request_.lengths_from.empty() && !batch_sizes_.empty()) break; // the length mix takes one
            if (engine_inputs(engines_[0], batch)) batch_sizes_.push_back(batch);
        }
        if (!batch_sizes_.empty()) return {};
        const auto& inputs = engines_[0].inputs;
        if (!inputs.empty() && !inputs[0].range.opt.empty()) batch_sizes_ = {inputs[0].range.opt[0]};
        return {};
    }

    Result<void> start_peers() {
        if (request_.against.empty()) return {};
        LATHE_CHECK(models_.choose(request_.model, scratch_.path()));
        if (!request_.code.empty() && !models_.source_is_code()) {
            return Error{ErrorCode::invalid_argument, "the model was not exported from a file of code", "--source",
                         "leave it out"};
        }
        for (const PeerRequest& peer : request_.against) {
            LATHE_CHECK(progress_.check());
            if (spent(peers_share)) {
                const std::string name = peer.precision.empty() ? std::string(to_string(peer.kind))
                                                                : to_string(peer.kind) + ("-" + peer.precision);
                unavailable_.push_back(to_json(Unavailable{name, 0, over_budget, "measure longer"}));
                continue;
            }
            SubjectInfo info;
            info.kind = peer.kind;
            std::string stem = peer.file.empty() ? "" : ":" + peer.file.stem().string();
            if (!peer.precision.empty()) stem = "-" + peer.precision;
            info.name = unique_name(to_string(peer.kind) + stem, taken_);
            const std::string name = info.name;
            auto subject = start_peer(std::move(info), peer);
            if (subject) {
                subjects_.push_back(std::move(*subject));
            } else {
                if (subject.error().code == ErrorCode::cancelled) return std::move(subject).error();
                Error& error = subject.error();
                unavailable_.push_back(to_json(Unavailable{name, 0, error.message, error.hint}));
            }
            progress_.advance();
        }
        return {};
    }

    Result<std::unique_ptr<Subject>> start_peer(SubjectInfo info, const PeerRequest& peer) {
        const bool from_source = peer.kind == SubjectKind::pytorch || peer.kind == SubjectKind::torch_compile;
        if (from_source) {
            info.precision = peer.precision.empty() ? "fp32" : peer.precision;
            // Beside engines of a GPU it runs on the GPU: anything else would be no comparison.
            if (engines_[0].device == "cuda") info.device = "cuda";
            if (info.device == "cpu" && info.precision == "fp16") {
                return Error{ErrorCode::unsupported, "PyTorch is measured in fp32, bf16 or int8 on the CPU", "",
                             "write " + std::string(to_string(peer.kind)) + "=bf16, or torch-compile=int8"};
            }
            if (!models_.source()) {
                return Error{ErrorCode::not_found,
                             "the model does not say how to rebuild its PyTorch module (metadata lathe.source)",
                             models_.file().string(),
                             "make the ONNX file with `lathe export`, and give it with --model"};
            }
            if (models_.source_is_code() && request_.code.empty()) {
                return Error{ErrorCode::unsupported,
                             "the PyTorch module is code in a file of its own, and no model's word for it is run",
                             models_.file().string(), "if you trust that code, add --source FILE.py:function"};
            }
        } else {
            const auto& file = peer.file.empty() ? models_.file() : peer.file;
            if (file.empty()) {
                return Error{ErrorCode::not_found, "no floating-point model for the peers was found", "",
                             "give it with --model FILE.onnx"};
            }
            LATHE_CHECK(describe_file(info, file));
            LATHE_TRY(const bool quantized, is_quantized_model(file));
            info.precision = quantized ? "int8" : "fp32";
        }
        if (peer.kind == SubjectKind::openvino) return make_openvino_peer(std::move(info));
        LATHE_TRY(const PythonPlace python, find_python());
        return make_worker_subject(std::move(info), models_.source().value_or(nullptr), request_.code, python,
                                   scratch_.path(), progress_);
    }

    Result<void> probe() {
        if (request_.probe_command.empty() || engines_.empty()) return {};
        LATHE_TRY(const auto specs, engine_inputs(engines_[0], batch_sizes_.front()));
        progress_.begin("memory and load time", subjects_.size());
        for (std::size_t i = 0; i < subjects_.size(); ++i) {
            const auto& subject = subjects_[i];
            progress_.advance();
            const SubjectKind kind = subject->info().kind;
            if (kind != SubjectKind::engine && kind != SubjectKind::openvino) continue;
            if (spent(probes_share)) {
                subject->info().notes.push_back(std::string("memory and load time were ") + over_budget);
                continue;
            }
            // Over a length mix, engines may be of lengths that the first does not take.
            auto own = engine_inputs(engines_[i < engines_.size() ? i : 0], batch_sizes_.front());
            const bool mix = !request_.lengths_from.empty() && own;
            const auto probed = probe_subject(subject->info(), request_.probe_command, mix ? *own : specs, progress_);
            if (probed) continue;
            if (probed.error().code == ErrorCode::cancelled) return probed.error();
            subject->info().notes.push_back("memory and load time were not measured: " + probed.error().message);
        }
        return {};
    }

    Result<std::unique_ptr<Dataset>> open_data() const {
        if (request_.data.empty() && raw_inputs_.empty()) return std::unique_ptr<Dataset>();
        std::vector<InputSpec> specs;
        for (const IoInfo& input : engines_[0].inputs) {
            Shape shape = input.range.opt;
            if (!shape.empty()) shape[0] = -1;
            specs.push_back({input.name, input.type, std::move(shape)});
        }
        DatasetOptions options;
        options.samples = request_.samples;
        options.text.columns = request_.columns;
        options.text.tokenizer = engines_[0].tokenizer;
        options.text.make_tokenizer = request_.make_tokenizer;
        options.text.labels = TextLabels::none;
        if (!raw_inputs_.empty()) return dataset_of_arrays(raw_inputs_, {}, specs, options);
        LATHE_TRY(std::optional<Preprocess> preprocess, request_.preprocess.resolve(specs));
        if (!preprocess) {
            LATHE_TRY(preprocess, Preprocess::from_text(engines_[0].preprocess, "the engine's preprocessing"));
        }
        return open_dataset(request_.data, preprocess, specs, options);
    }

    /// Every batch size on requests of one size.
    Result<Json> measure_equal() {
        LATHE_TRY(const std::unique_ptr<Dataset> data, open_data());
        MeasureOptions options;
        options.scaling = request_.scaling;
        options.batch_sizes = batch_sizes_;
        options.duration_s = request_.duration_s;
        options.time_limit_s = request_.time_limit_s;
        options.interleave.warm_up_s = request_.warm_up_ms * 1e-3;
        options.interleave.call_pause_ms = request_.pause_ms;
        options.interleave.rule.min_calls = request_.min_calls;
        options.interleave.percentiles = request_.percentiles;
        if (request_.budget_s > 0) options.left_s = [this] { return request_.budget_s - seconds_since(start_); };
        options.data = data.get();
        options.inputs = [this](std::int64_t batch) { return inputs_at(batch); };
        return measure(subjects_, options, progress_);
    }

    /// Where the inputs are from, for the record.
    std::string inputs_told() const {
        for (const std::string& source :
             {request_.lengths_from.string(), request_.data.string(), request_.raw_inputs.files}) {
            if (!source.empty()) return source;
        }
        return "random";
    }

    Result<Json> measure_mix() {
        LengthMixOptions options;
        options.data = request_.lengths_from;
        options.columns = request_.columns;
        options.samples = request_.samples;
        options.make_tokenizer = request_.make_tokenizer;
        options.paddings = request_.paddings;
        options.batch = batch_sizes_.front();
        options.turns.time_limit_s = request_.time_limit_s;
        return measure_length_mix(subjects_, engines_, options, progress_);
    }

    Result<Json> measure_all() {
        const bool mix = !request_.lengths_from.empty();
        const Machine machine = this_machine();
        const CpuTimes before_idle = cpu_times();
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const CpuTimes before = cpu_times();

        // trtexec's GPU is watched where the CUDA engine is there to do so.
        const auto found = backend_for_device(engines_.empty() ? "cuda" : engines_[0].device);
        if (!found && !engines_.empty()) return found.error();
        const Backend* backend = found ? *found : nullptr;
        constexpr double sample_every_s = 0.1;
        DeviceMonitor monitor(
            [backend](int device) -> std::optional<DeviceSample> {
                if (backend == nullptr) return std::nullopt;
                return backend->sample(device);
            },
            request_.devices.empty() ? std::vector<int>{0} : request_.devices, sample_every_s);

        LATHE_TRY(Json measured, mix ? measure_mix() : measure_equal());
        Json devices = monitor.finish();
        Json notes = noise_notes(machine, before_idle, before, cpu_times());
        for (const std::string& warning : device_warnings(devices))
            notes.push_back(warning);

        Json document{{"kind", "bench"},
                      {"version", 1},
                      {"lathe_version", LATHE_VERSION},
                      {"machine", to_json(machine)},
                      {"command", request_.command_line},
                      {"time", utc_now()},
                      {"libraries", Json::object()},
                      {"inputs", inputs_told()},
                      {"notes", std::move(notes)},
                      {"devices", std::move(devices)},
                      {"subjects", Json::array()}};
        for (const auto& subject : subjects_) {
            document["subjects"].push_back(to_json(subject->info()));
            document["libraries"].update(subject->info().libraries);
        }
        for (auto& entry : measured["unavailable"])
            unavailable_.push_back(std::move(entry));
        for (const char* key : {"latency", "throughput", "ratios"})
            document[key] = measured.contains(key) ? std::move(measured[key]) : Json::array();
        for (const char* key : {"scaling", "length_mix"})
            if (measured.contains(key)) document[key] = std::move(measured[key]);
        document["unavailable"] = std::move(unavailable_);
        return document;
    }

    const BenchRequest& request_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    Progress& progress_;
    ScratchFolder scratch_;
    std::set<std::string> taken_;
    std::vector<EngineInfo> engines_;
    std::vector<InputSpec> plan_inputs_; ///< of the first plan
    std::vector<HostTensor> raw_inputs_;
    PeerModel models_;
    std::vector<std::int64_t> batch_sizes_;
    std::vector<std::unique_ptr<Subject>> subjects_;
    Json unavailable_ = Json::array();
};

} // namespace

Result<PeerRequest> parse_peer(const std::string& text) {
    const auto equals = text.find('=');
    const auto kind = subject_kind_from_name(text.substr(0, equals));
    if (!kind || *kind == SubjectKind::engine || *kind == SubjectKind::trtexec) {
        return Error{ErrorCode::invalid_argument, "nothing known to compare with is called '" + text + "'", "--against",
                     "choose from pytorch, torch-compile, onnxruntime, openvino"};
    }
    PeerRequest peer;
    peer.kind = *kind;
    if (equals == std::string::npos) return peer;
    peer.file = text.substr(equals + 1);
    if (*kind == SubjectKind::pytorch || *kind == SubjectKind::torch_compile) {
        peer.precision = peer.file.string();
        peer.file.clear();
        if (peer.precision == "fp32" || peer.precision == "fp16" || peer.precision == "bf16") return peer;
        // Eager int8 is Q/DQ in float: nobody's fastest.
        if (peer.precision == "int8" && *kind == SubjectKind::torch_compile) return peer;
        return Error{ErrorCode::invalid_argument, "PyTorch takes no model file, only a precision", text,
                     "its module is rebuilt from what `lathe export` wrote into the ONNX file (see --model); write "
                     "fp32, fp16 or bf16, and torch-compile also int8"};
    }
    if (!std::filesystem::is_regular_file(peer.file)) {
        return Error{ErrorCode::not_found, "no such model file", peer.file.string(), ""};
    }
    return peer;
}

Result<void> check_source(const std::string& source) {
    if (source.empty()) return {};
    const auto colon = source.rfind(':');
    const std::string file = source.substr(0, colon);
    if (colon == std::string::npos || colon + 1 == source.size() || !file.ends_with(".py")) {
        return Error{ErrorCode::invalid_argument, "name the function that returns the module", source,
                     "--source FILE.py:function"};
    }
    if (!std::filesystem::is_regular_file(file))
        return Error{ErrorCode::not_found, "no such file or folder", file, "check the path"};
    return {};
}

Result<Json> bench(const BenchRequest& request, Progress& progress) {
    if (request.engines.empty() && request.plans.empty()) {
        return Error{ErrorCode::invalid_argument, "no engine to measure", "", "name at least one engine file"};
    }
    if (!request.lengths_from.empty() &&
        (request.warm_up_ms > 0 || request.min_calls > 0 || !request.percentiles.empty())) {
        return Error{ErrorCode::invalid_argument, "the length mix has rules of its own for when it is warm and done",
                     "--lengths-from", "leave out --warmUp, --iterations and --percentile"};
    }
    if (!request.plans.empty() && !request.lengths_from.empty()) {
        return Error{ErrorCode::invalid_argument, "trtexec runs requests of one size", "--lengths-from",
                     "measure the length mix without --via"};
    }
    if (request.raw_inputs.load && !(request.data.empty() && request.lengths_from.empty())) {
        return Error{ErrorCode::invalid_argument, "the inputs are given twice", "--loadInputs",
                     "leave out --data and --lengths-from"};
    }
    const bool given = !request.data.empty() || request.raw_inputs.load;
    if (request.engines.empty() && (!request.against.empty() || given || request.scaling)) {
        return Error{ErrorCode::invalid_argument, "a plan does not tell its inputs' types and preprocessing", "--via",
                     "leave out --against, --data, --loadInputs and --scaling, or name one of Lathe's engines of the "
                     "same model too"};
    }
    const auto from_source = [](const PeerRequest& peer) {
        return peer.kind == SubjectKind::pytorch || peer.kind == SubjectKind::torch_compile;
    };
    if (!request.code.empty() && std::ranges::none_of(request.against, from_source)) {
        return Error{ErrorCode::invalid_argument, "only PyTorch runs the code of a file", "--source",
                     "add --against pytorch, or leave it out"};
    }
    for (const std::int64_t batch : request.batch_sizes) {
        if (batch < 1) return Error{ErrorCode::invalid_argument, "a batch size must be 1 or more", "--batch-sizes", ""};
    }
    if (!request.lengths_from.empty() && (request.scaling || !request.data.empty() || request.batch_sizes.size() > 1)) {
        return Error{ErrorCode::invalid_argument, "the length mix is measured by itself, at one batch size",
                     "--lengths-from", "leave out --data, --scaling and all but one of --batch-sizes"};
    }
    if (request.lengths_from.empty() && !request.paddings.empty()) {
        return Error{ErrorCode::invalid_argument, "only texts of different lengths are filled up to buckets",
                     "--buckets", "name the texts with --lengths-from"};
    }
    LATHE_TRY(ScratchFolder scratch, ScratchFolder::create());
    return Bench(request, progress, std::move(scratch)).run();
}

} // namespace lathe
