#include "runtime/engine.hpp"

#include <algorithm>
#include <chrono>

#include "onnx/onnx.hpp"
#include "runtime/engine_file.hpp"
#include "runtime/labels.hpp"
#include "runtime/session.hpp"
#include "support/clock.hpp"
#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/log.hpp"
#include "support/machine.hpp"
#include "support/thread_pool.hpp"

namespace lathe {

struct Engine::Impl {
    EngineInfo info;
    std::shared_ptr<const CompiledModel> compiled;
    Traits traits;
    Model model;                              ///< if built here
    std::shared_ptr<const MappedFile> file;   ///< if loaded
    std::span<const std::byte> graph{};       ///< of the file
    std::span<const std::byte> usable_blob{}; ///< of the file, if it fits this machine
};

namespace {

constexpr const char* graph_section = "graph.onnx";
constexpr const char* blob_section = "compiled";

Result<std::string> preprocess_of(const Model& model) {
    const std::string* text = model.find_metadata("lathe.preprocess");
    if (text == nullptr) return std::string();
    LATHE_TRY(const Json json, parse_json(*text, "metadata lathe.preprocess"));
    return json.dump();
}

Result<std::string> tokenizer_of(const Model& model) {
    const std::string* text = model.find_metadata("lathe.tokenizer");
    if (text == nullptr) return std::string();
    LATHE_TRY(const Json json, parse_json(*text, "metadata lathe.tokenizer"));
    return json.dump();
}

/// INT8 for what has int8 layers, on this device: the GPU computes what is quantised as it comes in floats.
Precision usual_precision(const Model& model, const std::string& device) {
    const auto has = [&](std::string_view type) {
        return std::ranges::any_of(model.graph.nodes, [&](const auto& node) { return node->is(type); });
    };
    if (has("QuantizeLinear")) return Precision::int8;
    if (!has("DynamicQuantizeLinear")) return Precision::float32;
    return device == "cuda" ? Precision::float16 : Precision::int8;
}

std::vector<std::string> pieces_of(const std::string& key) {
    std::vector<std::string> pieces;
    std::size_t start = 0;
    while (start <= key.size()) {
        const std::size_t end = std::min(key.find("; ", start), key.size());
        pieces.push_back(key.substr(start, end - start));
        start = end + 2;
    }
    return pieces;
}

/// "2 cores, here 4 cores": the pieces in which two keys differ.
std::string difference(const std::string& then, const std::string& now) {
    const auto old_pieces = pieces_of(then);
    const auto new_pieces = pieces_of(now);
    std::string text;
    for (std::size_t i = 0; i < std::max(old_pieces.size(), new_pieces.size()); ++i) {
        const std::string a = i < old_pieces.size() ? old_pieces[i] : "nothing";
        const std::string b = i < new_pieces.size() ? new_pieces[i] : "nothing";
        if (a == b) continue;
        if (!text.empty()) text += "; ";
        text.append("built for ").append(a).append(", here ").append(b);
    }
    return text;
}

/// Numbers of devices where there are none to choose from would do nothing: an error.
Result<void> check_devices(const Backend& backend, const std::vector<int>& devices) {
    if (devices.empty() || backend.traits().several_devices) return {};
    return Error{ErrorCode::invalid_argument, "device " + backend.device() + " has no numbered devices to choose from",
                 "--devices", "leave --devices out; it names GPUs"};
}

/// A profile of one shape for each length, at the least and at the best batch size.
Result<void> add_lengths(const std::vector<std::int64_t>& lengths, CompileOptions& options) {
    for (const std::int64_t length : lengths) {
        bool open = false;
        auto least = options.shapes;
        auto best = options.shapes;
        for (const auto& [name, range] : options.shapes) {
            Shape first = range.min;
            Shape second = range.opt;
            if (range.min.size() > 1 && range.min[1] != range.max[1]) {
                open = true;
                if (length < range.min[1] || length > range.max[1]) {
                    return Error{ErrorCode::out_of_range,
                                 "length " + std::to_string(length) + " is outside the engine's range " +
                                     range.describe(),
                                 name, "give --shape a range that covers it"};
                }
                first[1] = second[1] = length;
            }
            least[name] = {first, first, first};
            best[name] = {second, second, second};
        }
        if (!open) {
            return Error{ErrorCode::invalid_argument, "no input has a length (axis 1) that is open", "--lengths",
                         "lengths are for models of texts; give other shapes with --shape"};
        }
        for (const auto& profile : {least, best}) {
            if (std::ranges::find(options.more_profiles, profile) == options.more_profiles.end())
                options.more_profiles.push_back(profile);
        }
    }
    return {};
}

CompileOptions compile_options(const EngineInfo& info, std::size_t threads, const EngineLoadOptions& wanted) {
    CompileOptions options;
    options.precision = info.precision;
    options.precision_is_asked = false; // it was, if at all, when the engine was built
    for (const auto& io : info.inputs)
        options.shapes.emplace(io.name, io.range);
    if (info.profiles.size() > 1) {
        options.shapes = info.profiles.front();
        options.more_profiles.assign(info.profiles.begin() + 1, info.profiles.end());
    }
    options.threads = threads;
    options.profiling = wanted.profiling;
    options.devices = wanted.devices;
    return options;
}

} // namespace

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::build(const Model& model, const BuildOptions& options) {
    LATHE_TRY(const Backend* backend, backend_for_device(options.device));
    LATHE_CHECK(check_devices(*backend, options.devices));
    CompileOptions compile;
    compile.precision = options.precision.value_or(usual_precision(model, options.device));
    compile.precision_is_asked = options.precision.has_value();
    compile.workspace_bytes = options.workspace_bytes;
    compile.threads = options.threads;
    compile.profiling = options.profiling;
    compile.timing_cache = options.timing_cache;
    compile.tune = options.tune;
    compile.allow_fallback = options.allow_fallback;
    compile.check = options.check;
    compile.devices = options.devices;
    compile.progress = options.progress;
    LATHE_TRY(compile.shapes, complete_shapes(model, options.shapes));
    for (const auto& profile : options.more_profiles) {
        LATHE_TRY(auto shapes, complete_shapes(model, profile));
        compile.more_profiles.push_back(std::move(shapes));
    }
    LATHE_CHECK(add_lengths(options.lengths, compile));
    auto impl = std::make_unique<Impl>();
    impl->traits = backend->traits();
    EngineInfo& info = impl->info;
    LATHE_TRY(info.preprocess, preprocess_of(model));
    LATHE_TRY(info.tokenizer, tokenizer_of(model));
    LATHE_TRY(info.labels, class_labels(model));
    impl->model = model;
    LATHE_TRY(const ByteChain graph, onnx_pieces(model));
    LATHE_TRY(impl->compiled, backend->compile(model, compile));
    info.name = options.name.empty() ? model.graph.name : options.name;
    info.device = options.device;
    info.backend = backend->name();
    info.precision = compile.precision;
    info.inputs = impl->compiled->inputs();
    info.outputs = impl->compiled->outputs();
    if (!compile.more_profiles.empty()) {
        info.profiles.push_back(compile.shapes);
        info.profiles.insert(info.profiles.end(), compile.more_profiles.begin(), compile.more_profiles.end());
    }
    info.source = options.source;
    info.hashes = options.hashes;
    info.hashes["model"] = graph.hex();
    info.calibration_digest = options.calibration_digest;
    info.lathe_version = LATHE_VERSION;
    info.library_version = backend->availability().version;
    info.command_line = options.command_line;
    info.time = utc_now();
    info.machine = to_json(this_machine()).dump();
    info.blob_key = backend->blob_key();
    info.threads = options.threads;
    info.graph_bytes = graph.size();
    return Engine(std::move(impl));
}

Result<Engine> Engine::load(const std::filesystem::path& path, const EngineLoadOptions& options) {
    LATHE_TRY(std::shared_ptr<const MappedFile> file, MappedFile::open(path));
    LATHE_TRY(const EngineContents contents, parse_engine(file->bytes(), path.string()));
    auto impl = std::make_unique<Impl>();
    auto info = engine_info_from_json(contents.info);
    if (!info) return std::move(info).error().in(path.string());
    impl->info = std::move(info).value();
    impl->file = file;
    impl->info.file_bytes = file->bytes().size();
    LATHE_TRY(impl->graph, contents.section(graph_section));
    LATHE_TRY(const auto blob, contents.section(blob_section));
    if (contents.has(tokenizer_section)) {
        LATHE_TRY(const auto text, contents.section(tokenizer_section));
        impl->info.tokenizer.assign(reinterpret_cast<const char*>(text.data()), text.size());
    }
    LATHE_TRY(const Backend* backend, backend_for_device(impl->info.device));
    if (auto taken = check_devices(*backend, options.devices); !taken)
        return std::move(taken).error().in(path.string());
    impl->traits = backend->traits();
    const bool other_threads =
        impl->traits.threads_matter && options.threads > 0 && options.threads != impl->info.threads;
    const std::size_t threads = other_threads ? options.threads : impl->info.threads;

    std::string reason;
    const std::string key = backend->blob_key();
    const bool graph_alone = blob.empty();
    if (graph_alone) {
        reason = "there is no compiled form"; // it could not be kept: see CompiledModel::save
    } else if (options.profiling && !impl->traits.profiles_without_recompiling) {
        reason = "to time its layers";
    } else if (!backend->loads(impl->info.blob_key, blob)) {
        reason = difference(impl->info.blob_key, key);
    } else if (other_threads) {
        reason = "built for " + std::to_string(impl->info.threads) + " threads, here " + std::to_string(threads);
    } else {
        CompileOptions as_built = compile_options(impl->info, threads, options);
        as_built.graph = impl->graph;
        auto loaded = backend->load(blob, file, as_built);
        if (loaded) {
            impl->compiled = std::move(loaded).value();
            impl->usable_blob = blob;
            return Engine(std::move(impl));
        }
        // These would stop a new compilation too.
        const ErrorCode code = loaded.error().code;
        if (code == ErrorCode::out_of_memory || code == ErrorCode::cancelled || code == ErrorCode::not_found)
            return std::move(loaded).error().in(path.string());
        reason = loaded.error().describe();
    }
    // What the caller asked for (profiling, another number of threads) is no news to the user.
    const bool asked_for = options.profiling || other_threads;
    if (!graph_alone && (!asked_for || key != impl->info.blob_key)) {
        log(LogLevel::warning, path.string() + " is compiled anew: " + reason + ". Build it here once to load fast.");
    }
    auto model = parse_onnx(impl->graph, {}, {}, file);
    if (!model) return std::move(model).error().in(path.string());
    auto compiled = backend->compile(*model, compile_options(impl->info, threads, options));
    if (!compiled) return std::move(compiled).error().in(path.string());
    impl->compiled = std::move(compiled).value();
    impl->info.recompiled = !options.profiling && !graph_alone; // else as it always is
    impl->info.recompiled_reason = impl->info.recompiled ? reason : "";
    impl->info.blob_key = key;
    impl->info.threads = threads;
    return Engine(std::move(impl));
}

Result<void> Engine::save(const std::filesystem::path& path) {
    ByteChain blob(impl_->usable_blob);
    if (impl_->usable_blob.empty()) {
        LATHE_TRY(blob, impl_->compiled->save());
    }
    ByteChain graph(impl_->graph);
    if (!impl_->file) {
        LATHE_TRY(graph, onnx_pieces(impl_->model));
    }
    impl_->info.blob_bytes = blob.size();
    EngineInfo stored = impl_->info;
    stored.recompiled = false;
    stored.recompiled_reason.clear();
    std::vector<NewSection> sections{{graph_section, std::move(graph)}, {blob_section, std::move(blob)}};
    if (!stored.tokenizer.empty()) sections.push_back({tokenizer_section, ByteChain(stored.tokenizer)});
    LATHE_TRY(impl_->info.file_bytes, write_engine(path, to_json(stored), sections));
    return {};
}

const EngineInfo& Engine::info() const { return impl_->info; }

Result<Session> Engine::make_session() const {
    auto impl = std::make_unique<Session::Impl>();
    impl->compiled = impl_->compiled;
    LATHE_TRY(impl->backend, impl_->compiled->make_session());
    return Session(std::move(impl));
}

Result<Session> Engine::make_session_on(int device) const {
    auto impl = std::make_unique<Session::Impl>();
    impl->compiled = impl_->compiled;
    LATHE_TRY(impl->backend, impl_->compiled->make_session_on(device));
    return Session(std::move(impl));
}

Result<std::vector<LayerInfo>> Engine::layers() const { return impl_->compiled->layers(); }

std::string Engine::layers_from() const { return impl_->compiled->layers_from(); }

Result<BuildReport> Engine::report() const { return impl_->compiled->report(); }

Result<EngineMemory> Engine::memory() const { return impl_->compiled->memory(); }

bool Engine::sessions_share_engine() const { return impl_->traits.sessions_share_engine; }

Result<ModelPtr> Engine::model() const {
    if (!impl_->file) return ModelPtr(new Model(impl_->model));
    LATHE_TRY(Model model, parse_onnx(impl_->graph, {}, {}, impl_->file));
    return ModelPtr(new Model(std::move(model)));
}

} // namespace lathe
