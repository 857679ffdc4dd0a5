#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/engine_types.hpp"
#include "lathe/export.hpp"
#include "lathe/model.hpp"
#include "lathe/pictures.hpp"
#include "lathe/progress.hpp"
#include "lathe/result.hpp"
#include "lathe/types.hpp"

namespace lathe {

struct Model;

struct BuildOptions {
    std::string name;           ///< for reports; empty: the model's graph name
    std::string device = "cpu"; ///< see `lathe doctor`
    /// None: int8 of a model with QuantizeLinear, else fp32. What is named must be there, on a GPU for 90 % of the
    /// multiplications, on the CPU in some layer: else unsupported, with the reasons, unless `allow_fallback`.
    std::optional<Precision> precision;
    /// By input name. An input with sizes that are not fixed and that is not named here gets batches 1..8..32 on
    /// axis 0 and, in a model with a tokenizer, lengths 1..128..its longest on axis 1; other open sizes are an error.
    std::map<std::string, ShapeRange> shapes;
    /// Further profiles beside `shapes`, each as complete: shapes within any of them are legal, and each is tuned for.
    /// On the CPU a further profile is one shape within `shapes`, for which the engine gets a form of its own.
    std::vector<std::map<std::string, ShapeRange>> more_profiles;
    /// Texts: lengths (axis 1) to add a profile of one shape for, at the least and at the best batch size of `shapes`.
    /// Errors: out_of_range outside `shapes`, invalid_argument where no input's axis 1 is open.
    std::vector<std::int64_t> lengths;
    std::size_t workspace_bytes = 0; ///< 0: no limit (GPU: 256 MiB). CPU backends have none and say so
    std::size_t threads = 0;         ///< 0: all available cores
    bool profiling = false;          ///< sessions can tell per-layer times; slower

    // GPU: kernels are timed while building.
    std::filesystem::path timing_cache; ///< file of kernel times, read and added to; empty: in the user's cache folder
    TuneEffort tune = TuneEffort::standard;
    bool allow_fallback = false;  ///< build even where much cannot run as asked: in other precisions, or on the CPU
    bool check = true;            ///< compare the finished network with reference kernels, operation by operation
    std::vector<int> devices{};   ///< GPUs to run on, by index; sessions take turns. Empty: the first
    Progress* progress = nullptr; ///< may be null

    // Kept in the engine file, to say later where it came from.
    std::string command_line;
    std::string source;                        ///< file the model was read from
    std::map<std::string, std::string> hashes; ///< "source", "ranges", ...: digests of what went into it
    std::string calibration_digest;            ///< of the calibration data, for int8
};

/// What an engine file says of itself.
struct EngineInfo {
    std::string name;
    std::string device;
    std::string backend;
    Precision precision = Precision::float32;
    std::vector<IoInfo> inputs;
    std::vector<IoInfo> outputs;
    std::vector<std::map<std::string, ShapeRange>> profiles; ///< if several: those the inputs' ranges are the hull of
    std::string preprocess;                                  ///< JSON object; empty if the model has none
    std::string tokenizer;           ///< JSON object that make_tokenizer takes; empty if the model has none
    std::vector<std::string> labels; ///< class names; may be empty
    std::string source;
    std::map<std::string, std::string> hashes; ///< "model" always: digest of the graph
    std::string calibration_digest;
    std::string lathe_version;
    std::string library_version; ///< of the backend's library
    std::string command_line;
    std::string time;     ///< UTC, ISO 8601
    std::string machine;  ///< JSON object: the machine it was built on
    std::string blob_key; ///< what the compiled form depends on
    std::size_t threads = 0;
    std::size_t graph_bytes = 0;
    std::size_t blob_bytes = 0;
    std::size_t file_bytes = 0;    ///< 0 if not saved or loaded
    bool recompiled = false;       ///< the compiled form did not fit this machine
    std::string recompiled_reason; ///< what differs
};

/// The info as one JSON object (text).
LATHE_API std::string to_json_text(const EngineInfo& info);

/// Runs an engine, one request at a time. Several sessions of one engine may run on several threads at once; one
/// session is used by one thread at a time. A session outlives its engine.
class LATHE_API Session {
public:
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;
    ~Session();

    const std::vector<IoInfo>& inputs() const;
    const std::vector<IoInfo>& outputs() const;

    /// `inputs`: one a model input, in the engine's order, or in any order if all have names. Memory is read in place.
    /// Returns one view an output; valid until the next run or the session's end.
    /// Errors: invalid_argument (count, name, type, bytes), out_of_range (a shape outside the engine's range: names
    /// input, shape and range).
    Result<std::vector<TensorView>> run(std::span<const TensorView> inputs);

    /// The session's own memory for this input, for whoever puts an input together: page-locked, so large that the
    /// engine's largest shape fits. An input given to a run that begins there is not copied on its way to the device.
    /// Not to be written between `start` and `wait`. Empty where runs read the caller's memory in place (CPU).
    std::span<std::byte> input_memory(std::size_t index);

    /// Per-layer times of the last run; the engine must have been built or loaded with `profiling`.
    Result<std::vector<LayerInfo>> profile();

    /// `run` in two halves: the device works while the caller does something else. The inputs' memory must stay as it
    /// is until `wait` returned, which gives the outputs as `run` does.
    Result<void> start(std::span<const TensorView> inputs);
    Result<std::vector<TensorView>> wait();

    /// Copies the inputs to the device; `rerun` then reads them there, as often as it is called, until the next run,
    /// start or keep. For measuring without copies, and for inputs that stay. Errors: as run; unsupported (CPU).
    Result<void> keep(std::span<const TensorView> inputs);
    /// Runs on the inputs that keep, run or start got last.
    Result<std::vector<TensorView>> rerun();

    /// Turns pictures into the only input on the device, and runs. Errors: invalid_argument (several inputs, not
    /// floats), out_of_range, unsupported (CPU).
    Result<std::vector<TensorView>> run_pictures(const PictureBatch& batch);

    /// Index of the device (GPU) that it runs on; 0 on the CPU.
    int device() const;

    /// Following runs can tell `times`: copies and kernels apart, by the device's clock. Costs some speed.
    /// Errors: unsupported (CPU).
    Result<void> set_timing(bool on);
    Result<RunTimes> times();
    /// What handing over the last run cost the calling thread beside the launch of the graph itself, in microseconds;
    /// copying inputs to page-locked memory comes before and is not in it. Errors: unsupported but on GPUs.
    Result<double> host_overhead_us();

private:
    friend class Engine;
    struct Impl;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

struct EngineLoadOptions {
    std::size_t threads = 0; ///< 0: as built. Another number compiles anew
    bool profiling = false;  ///< sessions can tell per-layer times; compiles anew from the graph where that needs it
    /// GPUs to run on, by index; each has its own copy of the weights, and sessions take the GPUs in turns. Empty: the
    /// first.
    std::vector<int> devices{};
};

/// A model compiled for a device and a range of shapes, with all that is needed to use it: preprocessing, class names,
/// provenance.
class LATHE_API Engine {
public:
    Engine(Engine&&) noexcept;
    Engine& operator=(Engine&&) noexcept;
    ~Engine();

    /// Compile. Errors: invalid_argument, unsupported (with the reason), out_of_range (shapes).
    static Result<Engine> build(const Model& model, const BuildOptions& options);

    /// Read an engine file. If its compiled form was made on another machine or by another version, the graph in it is
    /// compiled anew, a message says so, and `info().recompiled` is true.
    /// Errors: io, not_found, corrupt, mismatch (made by a newer Lathe), unsupported.
    static Result<Engine> load(const std::filesystem::path& path, const EngineLoadOptions& options = {});

    /// Write the engine file; it appears whole or not at all.
    Result<void> save(const std::filesystem::path& path);

    const EngineInfo& info() const;
    /// With several GPUs, sessions take them in turns.
    Result<Session> make_session() const;
    /// On the GPU with this index, one of those that the engine was built or loaded for.
    Result<Session> make_session_on(int device) const;
    /// Executed layers with the precision each computes in (times 0).
    Result<std::vector<LayerInfo>> layers() const;
    /// Whose `layers` are: the "engine"'s, or the "network"'s as handed over, nothing fused, where this machine cannot
    /// look into the engine (TensorRT without its GPU).
    std::string layers_from() const;
    /// What the build decided and why. Empty where the backend has nothing to tell or the engine was loaded.
    Result<BuildReport> report() const;
    /// Memory that it takes on its device. Errors: unsupported (CPU).
    Result<EngineMemory> memory() const;
    /// Sessions of this engine serve requests side by side without a compiled form each.
    bool sessions_share_engine() const;
    /// The graph it was compiled from. Errors: parse_error, unsupported (what reading ONNX gives).
    Result<ModelPtr> model() const;

private:
    struct Impl;
    explicit Engine(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// The file begins as an engine file does (it may still be damaged or of another version).
LATHE_API bool is_engine_file(const std::filesystem::path& path);

} // namespace lathe
