#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/activation_source.hpp"
#include "graph/graph.hpp"
#include "lathe/engine_types.hpp"
#include "lathe/pictures.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"
#include "support/byte_chain.hpp"
#include "support/json.hpp"

namespace lathe {

/// Whether a backend can be used here, and if not, why and what would change it.
struct Availability {
    bool available = false;
    std::string version;              ///< of the SDK or library
    std::vector<std::string> devices; ///< human-readable device names
    std::string cause;                ///< why not available
    std::string cure;                 ///< what to install or set
};

/// A backend's answer for one node: yes, or a reason a person can act on.
struct Support {
    bool supported = true;
    std::string reason;
};

/// How requests with several samples are run, where a model's samples do not mix.
enum class BatchPlan {
    measured, ///< the faster of the two, timed while compiling
    whole,    ///< in one piece
    pieces,   ///< cut into pieces that run side by side; models whose samples mix still run whole
};

struct CompileOptions {
    Precision precision = Precision::float32;
    bool precision_is_asked = true;           ///< by name: an error where too little runs in it
    std::map<std::string, ShapeRange> shapes; ///< by input name; an input not named keeps the model's (static) shape
    std::size_t workspace_bytes = 0;          ///< 0: no limit. Ignored with a message by backends without one.
    std::size_t threads = 0;                  ///< 0: all available cores
    BatchPlan batch_plan = BatchPlan::measured;
    bool profiling = false; ///< sessions can tell per-layer times; costs some speed

    /// Further ranges beside `shapes`; the CPU's are single shapes within `shapes`, which get forms of their own.
    std::vector<std::map<std::string, ShapeRange>> more_profiles;

    // For backends that time kernels while compiling; others ignore them.
    std::filesystem::path timing_cache; ///< empty: the user's cache folder
    TuneEffort tune = TuneEffort::standard;
    bool allow_fallback = false;  ///< go on where much cannot run in the precision asked, or only on the CPU
    bool check = true;            ///< compare the finished network with reference kernels, operation by operation
    std::vector<int> devices{};   ///< indices; empty: the first
    Progress* progress = nullptr; ///< told how far it is, and asked whether to stop; may be null

    /// Backend::load: the ONNX that the form was compiled from, for forms without weights; `owner` keeps it alive too.
    std::span<const std::byte> graph{};
};

/// That too little runs in the precision (unsupported) is an error where it was asked for by name, else a warning.
Result<void> told_unless_asked(Result<void> audit, const CompileOptions& options);

/// What a device's management library says of it now. Fields that it does not tell are absent.
struct DeviceSample {
    std::optional<unsigned> sm_clock_mhz, memory_clock_mhz, temperature_celsius, utilization_percent;
    std::optional<double> power_watts;
    std::optional<std::uint64_t> memory_used_bytes, memory_total_bytes; ///< of all processes
    std::vector<std::string> slowed_by; ///< "power cap", "thermal", ...: why the clocks are below their most
};

/// A tensor in the memory of a device. Row-major, densely packed. Owned by somebody else.
struct DeviceTensor {
    void* data = nullptr;
    DataType type = DataType::undefined;
    Shape shape;
    int device = 0;
};

/// What a session answers to what its backend does not have.
inline Error no_such_session_feature(const std::string& what) {
    return {ErrorCode::unsupported, "this backend cannot " + what, "", ""};
}

/// State for running one request at a time. Several sessions of one compiled model may run on several threads at once;
/// one session is used by one thread at a time.
/// Order: set_input for every input, run, output. Views given to set_input stay valid until run returns; views from
/// output stay valid until the next run, or destruction.
class BackendSession {
public:
    virtual ~BackendSession() = default;
    virtual Result<void> set_input(std::size_t index, const TensorView& view) = 0;
    virtual Result<void> run() = 0;
    virtual Result<TensorView> output(std::size_t index) = 0;
    /// Per-layer times of the last run. Unsupported unless compiled with profiling, or `Traits` says it is not needed.
    virtual Result<std::vector<LayerInfo>> profile() = 0;

    /// Hand the run over to the device; the inputs set stay in use until `wait` returned. `run` is start and wait.
    virtual Result<void> start() { return run(); }
    /// Until the last start is done. Outputs are there then.
    virtual Result<void> wait() { return {}; }
    /// Following runs can tell `times`; costs some speed.
    virtual Result<void> set_timing(bool /*on*/) { return no_such_session_feature("tell where a run's time went"); }
    virtual Result<RunTimes> times() { return no_such_session_feature("tell where a run's time went"); }
    /// Microseconds that handing over the last run took the calling thread, the launch of its graph not counted.
    virtual Result<double> host_overhead_us() { return no_such_session_feature("tell what a run costs the host"); }
    /// Memory of the session that this input may be put together in: set_input copies no view that begins there. Empty
    /// where set_input copies nothing anyway.
    virtual std::span<std::byte> input_memory(std::size_t /*index*/) { return {}; }
    /// In place of set_input: memory of the session's device, read by the next runs. It stays valid until wait.
    virtual Result<void> set_device_input(std::size_t /*index*/, const DeviceTensor& /*tensor*/) {
        return no_such_session_feature("read device memory");
    }
    /// As set_input, but copied to the device at once: following runs read it there, until the next set_input.
    virtual Result<void> keep_input(std::size_t /*index*/, const TensorView& /*view*/) {
        return no_such_session_feature("keep inputs in device memory");
    }
    /// As keep_input, made on the device from pictures.
    virtual Result<void> keep_pictures(std::size_t /*index*/, const PictureBatch& /*batch*/) {
        return no_such_session_feature("turn pictures into inputs");
    }
    /// Memory that the next runs write this output to, in place of the session's own: as large as the output, whose
    /// shape must be known before it runs. It stays valid until another is given, or destruction.
    virtual Result<void> set_output(std::size_t /*index*/, std::span<std::byte> /*memory*/) {
        return no_such_session_feature("write to given memory");
    }
    /// Index of the device it runs on.
    virtual int device() const { return 0; }
    /// The output in the device's memory; valid until the next run.
    virtual Result<DeviceTensor> device_output(std::size_t /*index*/) {
        return no_such_session_feature("give device memory");
    }
};

/// A model compiled for one device. Immutable; shared by its sessions.
class CompiledModel {
public:
    virtual ~CompiledModel() = default;
    virtual const std::vector<IoInfo>& inputs() const = 0;
    virtual const std::vector<IoInfo>& outputs() const = 0;
    virtual Result<std::unique_ptr<BackendSession>> make_session() const = 0;
    /// On one of the devices it was compiled or loaded for. Errors: invalid_argument for another.
    virtual Result<std::unique_ptr<BackendSession>> make_session_on(int device) const {
        if (device == 0) return make_session();
        return Error{ErrorCode::invalid_argument, "there is no device " + std::to_string(device), "", ""};
    }
    /// Executed layers with their precisions (times 0).
    virtual Result<std::vector<LayerInfo>> layers() const = 0;
    /// Whose layers these are: the "engine"'s, or the "network"'s where only that can be read here, nothing fused yet.
    virtual std::string layers_from() const { return "engine"; }
    /// The compiled form, for `Backend::load`. Parts of it may lie in this model, which must outlive it. Empty where
    /// the backend's library would read it back as another network: the graph is then compiled whenever it is loaded.
    virtual Result<ByteChain> save() const = 0;
    /// Memory that running takes on the device. Unsupported where it has none of its own.
    virtual Result<EngineMemory> memory() const {
        return Error{ErrorCode::unsupported, "this backend has no memory of its own", "", ""};
    }
    /// What the build decided; empty where nothing is to be told, or the model was loaded.
    virtual Result<BuildReport> report() const { return BuildReport{}; }
};

/// What a backend's engines depend on, beyond `blob_key`.
struct Traits {
    bool threads_matter = true;                ///< another number of threads needs another compilation
    bool profiles_without_recompiling = false; ///< any session can tell per-layer times
    bool sessions_share_engine = false;        ///< several sessions of one engine serve requests side by side
    bool several_devices = false;              ///< takes CompileOptions::devices
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual std::string name() const = 0;   ///< "openvino"
    virtual std::string device() const = 0; ///< what --device calls it: "cpu"
    virtual Availability availability() const = 0;
    virtual Support supports(const Node& node, const Model& model) const = 0;
    virtual Result<std::unique_ptr<CompiledModel>> compile(const Model& model, const CompileOptions& options) const = 0;
    /// compile with `profiling`, so that sessions can tell per-layer times.
    Result<std::unique_ptr<CompiledModel>> compile_profiled(const Model& model, CompileOptions options) const {
        options.profiling = true;
        return compile(model, options);
    }
    /// Load what CompiledModel::save gave on a machine and version that `loads` takes. `owner` keeps the bytes
    /// alive; parts of them may be read only when first needed.
    virtual Result<std::unique_ptr<CompiledModel>>
    load(std::span<const std::byte> blob, std::shared_ptr<const void> owner, const CompileOptions& options) const = 0;
    /// Runs the model in float32 and shows the named tensors (calibration). `threads` 0: all available cores.
    virtual Result<std::unique_ptr<ActivationSource>> observe(const Model& model, std::vector<std::string> tensors,
                                                              std::size_t threads) const = 0;
    /// Identifies what a blob depends on: library version and machine.
    virtual std::string blob_key() const = 0;
    /// Whether `load` may be tried with a blob made under this key; else the graph is compiled anew.
    virtual bool loads(const std::string& key, std::span<const std::byte> /*blob*/) const { return key == blob_key(); }
    virtual Traits traits() const { return {}; }
    /// Clocks, power, temperature and memory of one of its devices now; nothing where nobody tells.
    virtual std::optional<DeviceSample> sample(int /*device*/) const { return std::nullopt; }
    /// Processors of this machine that are nearest to the device and that this process may use; empty: no difference.
    virtual std::vector<int> cpus_near(int /*device*/) const { return {}; }
};

/// All backends this binary knows, available or not, in order of preference.
const std::vector<std::unique_ptr<Backend>>& backends();
/// The first backend that is available here; used where any will do (calibration). Fails if there is none.
Result<const Backend*> default_backend();
/// The backend for "--device NAME". A failure names the known devices, or the cause and cure if not available.
Result<const Backend*> backend_for_device(std::string_view device);

} // namespace lathe
